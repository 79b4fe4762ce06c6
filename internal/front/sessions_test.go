package front

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// seenBy is a port as an engine sees it.
func (w *world) seenBy(port int) *server.Port {
	return &server.Port{
		Open: func(loop int, _ *latency.Asked) server.Session { return w.session(port, loop) },
		Resume: func(loop int, _ *latency.Asked, state []byte) (server.Session, error) {
			return w.resume(&w.ports[port], loop, nil, state)
		},
	}
}

// session returns the session of a new connection.
func (w *world) session(port, loop int) server.Session { return w.open(&w.ports[port], loop, nil) }

// FuzzState resumes from anything: nobody is logged in without a user, and nothing panics.
func FuzzState(f *testing.F) {
	for _, state := range []string{"m1 l - - 0 0", "m1 l - -t 0 0", `l1 "ann" m1 l - -t 0 0`, `l1 "eve" m1 l - -t 0 0`,
		`l1 "ann" r1 s -t 0 0 0 0 0 0 = =`, "r1 s -t 0 0 0 0 0 0 = =",
		`l1 "ann`, `l1 "ann"`, "l1 ", "l2 x", `l1 "ann" l1 "ann" m1 l - -t 0 0`, "m1 h - - 0 0"} {
		f.Add([]byte(state), []byte("get id\r\n"))
	}
	auth := filepath.Join(f.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("ann:secret\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	d := newFront(f, func(c *Config, _ *Given) { c.AuthFile, c.RedisPort = auth, 1 })
	f.Cleanup(d.End)
	f.Fuzz(func(t *testing.T, state, in []byte) {
		for i := range d.ports {
			s, err := d.seenBy(i).Reopen(0, nil, state)
			if err != nil {
				continue
			}
			l := s.(*loginSession)
			if c, ok := l.Session.(conversation); ok && c.LoggedIn() && l.account == nil {
				t.Errorf("%q: somebody without a name has logged in", state)
			}
			server.Converse(&s, 1, in, nil)
		}
	})
}
