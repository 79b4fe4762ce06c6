package sockets

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// heard calls seen for each line of a log before the caller that logged it goes on.
type heard func(message string)

func (h heard) Write(line []byte) (int, error) {
	_, message, _ := bytes.Cut(line, []byte(`msg="`))
	message, _, _ = bytes.Cut(message, []byte(`"`))
	h(string(message))
	return len(line), nil
}

func (h heard) log() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

const busyLine = "address in use, trying for "

// TestAddressThatComesFree: a start must wait for an address that its last owner gives up a moment later, as
// the io_uring of a killed daemon does. Here the owner waits until the start has found the address in use.
func TestAddressThatComesFree(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, c := range []struct {
		network, address string
		at               Place
	}{
		{"tcp", "127.0.0.1:0", Place{Host: "127.0.0.1"}},
		{"tcp", "localhost:0", Place{Host: "localhost"}},
		{"udp", "127.0.0.1:0", Place{Host: "127.0.0.1", UDP: true}},
		{"unix", socket, Place{Path: socket, Mode: 0o700}},
	} {
		var owner interface{ Close() error }
		var at net.Addr
		if c.at.UDP {
			conn, err := net.ListenPacket(c.network, c.address)
			if err != nil {
				t.Fatal(err)
			}
			owner, at = conn, conn.LocalAddr()
		} else {
			ln, err := net.Listen(c.network, c.address)
			if err != nil {
				t.Fatal(err)
			}
			owner, at = ln, ln.Addr()
		}
		switch a := at.(type) {
		case *net.TCPAddr:
			c.at.Port = a.Port
		case *net.UDPAddr:
			c.at.Port = a.Port
		}
		said := 0
		b := Binder{Log: heard(func(message string) {
			if strings.HasPrefix(message, busyLine) {
				said++
				owner.Close()
			}
		}).log()}
		err := b.Bind(t.Context(), func() error {
			if c.at.UDP {
				conn, err := Passed(nil).UDP(c.at)
				if err == nil {
					conn.Close()
				}
				return err
			}
			if err := c.at.Probe(); err != nil {
				return err
			}
			ln, err := Passed(nil).Listener(c.at)
			if err == nil {
				ln.Close()
			}
			return err
		})
		if err != nil || said != 1 {
			t.Errorf("%s: %v; the log says %d times that the address is in use, want once", c.address, err, said)
		}
		owner.Close()
	}
}

func TestAddressThatStaysInUse(t *testing.T) {
	taken := &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
	// attempt calls bind, and returns how long that took, in fake time, and how often bind called
	// listen.
	attempt := func(b *Binder, ctx context.Context, listen error) (took time.Duration, calls int) {
		began := time.Now()
		if err := b.Bind(ctx, func() error {
			calls++
			return listen
		}); !errors.Is(err, listen) {
			t.Errorf("error %v, want %v", err, listen)
		}
		return time.Since(began), calls
	}
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := heard(func(message string) { lines = append(lines, message) }).log()
		b := &Binder{Log: log}
		if took, calls := attempt(b, t.Context(), nil); took != 0 || calls != 1 || lines != nil {
			t.Errorf("a free address: %d attempts in %v, logged %q", calls, took, lines)
		}
		if took, calls := attempt(b, t.Context(), syscall.EACCES); took != 0 || calls != 1 || lines != nil {
			t.Errorf("an address that is not allowed: %d attempts in %v, logged %q", calls, took, lines)
		}
		if took, calls := attempt(b, t.Context(), taken); took != Patience || calls < 100 {
			t.Errorf("%d attempts in %v, want many in %v", calls, took, Patience)
		}
		if want := busyLine + "3s more"; len(lines) != 1 || lines[0] != want {
			t.Errorf("logged %q, want %q once", lines, want)
		}
		if took, _ := attempt(b, t.Context(), taken); took != 0 {
			t.Errorf("another address of the same start was tried for %v more", took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, _ := attempt(&Binder{Log: log}, ctx, taken); took != time.Second {
			t.Errorf("went on for %v after a second, when the daemon was told to stop", took)
		}
	})
}
