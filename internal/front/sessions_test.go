package front

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// withLogins returns a Front that listens nowhere, with the memcached and the Redis port, and a function
// that replaces its users.
func withLogins(t testing.TB, users string) (w *world, replace func(users string)) {
	t.Helper()
	auth := filepath.Join(t.TempDir(), "auth")
	write := func(users string) {
		t.Helper()
		if err := os.WriteFile(auth, []byte(users), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(users)
	w = newFront(t, func(c *Config, _ *Given) { c.AuthFile, c.RedisPort = auth, 1 })
	t.Cleanup(w.End)
	return w, func(users string) {
		t.Helper()
		write(users)
		w.Reload(func(what string, err error) {
			if what != "users" || err != nil {
				t.Fatal(what, err)
			}
		})
	}
}

// session returns the session of a new connection.
func (w *world) session(port, loop int) server.Session { return w.open(&w.ports[port], loop, nil) }

// ask feeds a session and returns its answer and what it leaves.
func ask(t *testing.T, s *server.Session, in string) (answer, rest string) {
	t.Helper()
	n, reply, _, err := server.Converse(s, 1, []byte(in), nil)
	if err != nil {
		t.Fatalf("%q: %v", in, err)
	}
	return string(reply), in[n:]
}

// A session that is frozen goes on elsewhere: after a login, with the rights that its user has there, in
// a value, in a transaction, with what the client said about itself. Whoever is gone there is closed.
func TestSessionsMove(t *testing.T) {
	d, replace := withLogins(t, "ann:secret\nbob smith:secret\n")
	sasl := "\x80\x21\x00\x05\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00PLAIN\x00ann\x00secret"
	noop := "\x80\x0a" + strings.Repeat("\x00", 22)
	for _, c := range []struct {
		what          string
		port          int
		before, after string
		want          string
	}{
		{"silent", 0, "", "set x 0 0 10\r\nann secret\r\nverbosity 1\r\n", "STORED\r\nOK\r\n"},
		{"in the handshake", 0, "set x 0 0 10\r\n", "ann secret\r\nverbosity 1\r\n", "STORED\r\nOK\r\n"},
		{"half a password", 0, "set x 0 0 10\r\nann se", "cret\r\nverbosity 1\r\n", "STORED\r\nOK\r\n"},
		{"logged in", 0, "set x 0 0 10\r\nann secret\r\n", "verbosity 1\r\n", "OK\r\n"},
		{"in a value", 0, "set x 0 0 10\r\nann secret\r\nset y 0 0 20\r\nverbosity", " 1\r\n\r\n34567\r\nverbosity 1\r\n",
			"SERVER_ERROR read-only: ids are not stored\r\nOK\r\n"},
		{"binary", 0, sasl, noop, "\x81\x0a" + strings.Repeat("\x00", 22)},
		{"Redis, logged in", 1, "*3\r\n$4\r\nAUTH\r\n$9\r\nbob smith\r\n$6\r\nsecret\r\n", "ACL WHOAMI\r\n",
			"$9\r\nbob smith\r\n"},
		{"Redis, with a name, in RESP3", 1, "HELLO 3 AUTH ann secret SETNAME me\r\n",
			"CLIENT GETNAME\r\nCLIENT SETNAME \"\"\r\nCLIENT GETNAME\r\n", "$2\r\nme\r\n+OK\r\n_\r\n"},
		{"Redis, in a transaction", 1, "AUTH ann secret\r\nMULTI\r\nPING\r\n", "EXEC\r\nPING\r\n",
			"*1\r\n+PONG\r\n+PONG\r\n"},
		{"Redis through the memcached port", 0, "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsecret\r\n*1\r\n$4\r\nPI", "NG\r\n",
			"+PONG\r\n"},
	} {
		s := d.session(c.port, 0)
		s.(server.PeerSession).Peer(netip.MustParseAddr("10.0.0.1"))
		_, rest := ask(t, &s, c.before)
		state, ok := s.(server.Movable).Freeze()
		if !ok {
			t.Errorf("%s: it does not freeze", c.what)
			continue
		}
		port := server.Port{
			Open: func(loop int, _ *latency.Asked) server.Session { return d.session(c.port, loop) },
			Resume: func(loop int, _ *latency.Asked, state []byte) (server.Session, error) {
				return d.resume(&d.ports[c.port], loop, nil, state)
			},
		}
		next, err := port.Reopen(0, nil, state)
		if err != nil {
			t.Errorf("%s: %q: %v", c.what, state, err)
			continue
		}
		next.(server.PeerSession).Peer(netip.MustParseAddr("10.0.0.1"))
		if got, _ := ask(t, &next, rest+c.after); got != c.want {
			t.Errorf("%s: %q answers %q, want %q", c.what, state, got, c.want)
		}
		if !strings.HasPrefix(string(state), "l1 ") {
			continue
		}
		replace("carol:secret\n")
		if _, err := port.Reopen(0, nil, state); err == nil || !strings.Contains(err.Error(), "any more") {
			t.Errorf("%s, without that user: %v", c.what, err)
		}
		replace("ann:secret\nbob smith:secret\n")
	}
}

// FuzzState resumes from anything: nobody is logged in without a user, and nothing panics.
func FuzzState(f *testing.F) {
	for _, state := range []string{"m1 l - - 0 0", "m1 l - -t 0 0", `l1 "ann" m1 l - -t 0 0`, `l1 "eve" m1 l - -t 0 0`,
		`l1 "ann" r1 s -t 0 0 0 0 0 0 = =`, "r1 s -t 0 0 0 0 0 0 = =",
		`l1 "ann`, `l1 "ann"`, "l1 ", "l2 x", `l1 "ann" l1 "ann" m1 l - -t 0 0`, "m1 h - - 0 0"} {
		f.Add([]byte(state), []byte("get id\r\n"))
	}
	d, _ := withLogins(f, "ann:secret\n")
	f.Fuzz(func(t *testing.T, state, in []byte) {
		for i := range d.ports {
			port := server.Port{
				Open: func(loop int, _ *latency.Asked) server.Session { return d.session(i, loop) },
				Resume: func(loop int, _ *latency.Asked, state []byte) (server.Session, error) {
					return d.resume(&d.ports[i], loop, nil, state)
				},
			}
			s, err := port.Reopen(0, nil, state)
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
