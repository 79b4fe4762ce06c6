package client

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
)

// TestDialWithoutAConnection: a Dial that returns neither a connection nor an error is a server that fails.
func TestDialWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Static("a:1"), Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if id, err := c.ID(t.Context()); id != 0 || err == nil || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("id %d, error %v", id, err)
		}
	})
}
