package daemon

import (
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

	"github.com/katsubushi/katsubushi/v3/generator"
)

// A watcher watches a log: it calls seen for each line before the caller that logged it goes on.
type watcher struct {
	slog.Handler
	seen func(message string)
}

func (w watcher) Handle(_ context.Context, r slog.Record) error {
	w.seen(r.Message)
	return nil
}

func (w watcher) Enabled(context.Context, slog.Level) bool { return true }

const busyLine = "address in use, trying for "

// A start must wait for an address that its last owner gives up a moment later, as the io_uring of
// a killed daemon does. Here the owner waits until the start has found the address in use.
func TestAddressThatComesFreeDuringAStart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, test := range []struct {
		name, network, address string
		set                    func(c *Config, port int)
	}{
		{"memcached", "tcp", "127.0.0.1:0", func(c *Config, port int) { c.Port = port }},
		{"unix", "unix", socket, func(c *Config, _ int) { c.Sock, c.SockMode = socket, 0o700 }},
		{"http", "tcp", "127.0.0.1:0", func(c *Config, port int) { c.HTTPPort = port }},
		{"debug", "tcp", "localhost:0", func(c *Config, port int) { c.DebugPort, c.EnableStats = port, true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			owner, err := net.Listen(test.network, test.address)
			if err != nil {
				t.Fatal(err)
			}
			defer owner.Close()
			said := 0
			c := Config{
				Version: "3.0.0", WorkerIDs: []uint64{1}, Layout: generator.Katsubushi(), Bind: "127.0.0.1", Engine: "net",
				Loops: 1, MaxConnections: 10,
				Log: slog.New(watcher{slog.DiscardHandler, func(message string) {
					if strings.HasPrefix(message, busyLine) {
						said++
						owner.Close()
					}
				}}),
			}
			port := 0
			if tcp, ok := owner.Addr().(*net.TCPAddr); ok {
				port = tcp.Port
			}
			test.set(&c, port)
			d, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			if said != 1 {
				t.Errorf("the log says %d times that the address is in use, want once", said)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAddressThatStaysInUse(t *testing.T) {
	taken := &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
	// attempt calls bind, and returns how long that took, in fake time, and how often bind called
	// listen.
	attempt := func(b *binder, ctx context.Context, listen error) (took time.Duration, calls int) {
		began := time.Now()
		if err := b.bind(ctx, func() error {
			calls++
			return listen
		}); !errors.Is(err, listen) {
			t.Errorf("error %v, want %v", err, listen)
		}
		return time.Since(began), calls
	}
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := slog.New(watcher{slog.DiscardHandler, func(message string) { lines = append(lines, message) }})
		b := &binder{log: log}
		if took, calls := attempt(b, t.Context(), nil); took != 0 || calls != 1 || lines != nil {
			t.Errorf("a free address: %d attempts in %v, logged %q", calls, took, lines)
		}
		if took, calls := attempt(b, t.Context(), syscall.EACCES); took != 0 || calls != 1 || lines != nil {
			t.Errorf("an address that is not allowed: %d attempts in %v, logged %q", calls, took, lines)
		}
		if took, calls := attempt(b, t.Context(), taken); took != bindPatience || calls < 100 {
			t.Errorf("%d attempts in %v, want many in %v", calls, took, bindPatience)
		}
		if want := busyLine + "3s more"; len(lines) != 1 || lines[0] != want {
			t.Errorf("logged %q, want %q once", lines, want)
		}
		if took, _ := attempt(b, t.Context(), taken); took != 0 {
			t.Errorf("another address of the same start was tried for %v more", took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, _ := attempt(&binder{log: log}, ctx, taken); took != time.Second {
			t.Errorf("went on for %v after a second, when the daemon was told to stop", took)
		}
	})
}
