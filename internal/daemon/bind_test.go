package daemon

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
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
			c := testConfig()
			c.Log = slog.New(watcher{slog.DiscardHandler, func(message string) {
				if strings.HasPrefix(message, busyLine) {
					said++
					owner.Close()
				}
			}})
			port := 0
			if tcp, ok := owner.Addr().(*net.TCPAddr); ok {
				port = tcp.Port
			}
			test.set(&c, port)
			d, err := New(t.Context(), c)
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
