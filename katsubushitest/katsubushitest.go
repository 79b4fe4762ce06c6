// Package katsubushitest runs a daemon within a Go test, as net/http/httptest runs a web server:
//
//	func TestOrder(t *testing.T) {
//		addr := katsubushitest.Start(t, katsubushitest.Names("orders sequence start=1000"))
//		shop := shop.New(addr) // whatever asks 127.0.0.1:11212 in production
//		...
//	}
//
// It is the daemon itself, with the portable engine, on a free port of the loopback address: memcached's protocols
// and Redis's. It stops with the test, and leaves no goroutine, file or connection. A test may start several; parallel
// tests have their own. What it issues is unique among the daemons of one process, but it records nothing of its ids:
// never store them beside those of real daemons.
//
// The package links the whole daemon, so only tests should import it.
package katsubushitest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// An Option changes the daemon that Start starts.
type Option func(*settings)

// settings are what Options change.
type settings struct {
	names  []string
	users  []string
	layout generator.Layout
	refuse bool
	log    *slog.Logger
}

// Names declares names by definitions, as the daemon's flag -name does: "orders sequence start=1000",
// "sessions uuid7". The values of sequences begin anew with each daemon.
func Names(definitions ...string) Option {
	return func(s *settings) { s.names = append(s.names, definitions...) }
}

// OnlyNames refuses ids for keys that Names does not declare, as -unknown-keys refuse does: a misspelt key fails the
// test. The key "id" is always there.
func OnlyNames() Option { return func(s *settings) { s.refuse = true } }

// User adds a user. With users, clients must log in: by memcached's text or SASL login, or by Redis's AUTH.
func User(name, password string) Option {
	return func(s *settings) { s.users = append(s.users, name+":"+password) }
}

// Layout sets the layout of plain ids. Default generator.Katsubushi().
func Layout(l generator.Layout) Option { return func(s *settings) { s.layout = l } }

// Log sends the daemon's log to a logger. Default: a line goes to t.Log if it is a warning or an error.
func Log(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// patience is how long a daemon may take to start or to stop before its test fails.
const patience = time.Minute

// workers counts daemons of this process: each has a worker id of its own, as long as that many exist.
var workers atomic.Uint64

// Start starts a daemon and returns its address, HOST:PORT. It fails t if an option is wrong; the message has
// everything that is. The daemon stops when t and its subtests have ended.
func Start(t testing.TB, options ...Option) (address string) {
	t.Helper()
	s := settings{layout: generator.Katsubushi(), log: slog.New(slog.NewTextHandler(lines{t}, &slog.HandlerOptions{
		Level: slog.LevelWarn,
	}))}
	for _, change := range options {
		change(&s)
	}
	d, err := daemon.New(context.Background(), s.config(t))
	if err != nil {
		t.Fatalf("katsubushitest: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // that of t is over before its clean-up begins
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("katsubushitest: %v", err)
			}
		case <-time.After(patience):
			t.Error("katsubushitest: the daemon does not stop")
		}
	})
	select {
	case <-d.Serving():
		return d.Addr().String()
	case err := <-ended:
		ended <- nil
		t.Fatalf("katsubushitest: the daemon has ended: %v", err)
	case <-time.After(patience):
		t.Fatal("katsubushitest: the daemon does not start: ", d.Status())
	}
	return ""
}

// config returns the daemon's settings.
func (s *settings) config(t testing.TB) daemon.Config {
	t.Helper()
	c := daemon.Config{
		Version: "3.0.0", Log: s.log,
		Names: daemon.Names{
			Definitions: strings.Join(s.names, "\n"), RefuseUnknown: s.refuse, MaxWait: time.Second,
		},
		Windows: daemon.Windows{
			WorkerIDs:   []uint64{(workers.Add(1)-1)%s.layout.MaxWorker() + 1},
			Layout:      s.layout,
			MaxRunAhead: time.Second,
		},
		Front: daemon.Front{Bind: "127.0.0.1", Engine: "net", Loops: 1, MaxConnections: 10_000},
	}
	if len(s.names) > 0 {
		c.Counters, c.AnyDisk = stores.Counters{Dir: t.TempDir(), AnyDisk: true}, true
	}
	if len(s.users) > 0 {
		c.AuthFile = filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(c.AuthFile, []byte(strings.Join(s.users, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// lines are a log in that of a test.
type lines struct{ testing.TB }

func (l lines) Write(line []byte) (int, error) {
	l.Logf("katsubushi: %s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
