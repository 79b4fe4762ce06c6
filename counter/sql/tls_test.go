package sql

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// TestNoTLSIsCertain: no daemon waits for a PostgreSQL that has no TLS, which says so to the first bytes of a client.
func TestNoTLSIsCertain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil {
				io.WriteString(conn, "N")
			}
			conn.Close()
		}
	}()
	s, err := Open(Config{URL: "postgres://u@" + ln.Addr().String() + "/app", Lax: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.List(t.Context()); errors.Is(err, counter.ErrUnavailable) || err == nil ||
		!strings.Contains(err.Error(), noSSL) {
		t.Error(err)
	}
}
