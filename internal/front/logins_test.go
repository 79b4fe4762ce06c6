package front

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// TestLoginsOfAllPortsShareALimit: a client that has used up its guesses on the memcached port,
// over any number of connections and loops, has none left over HTTP either. Other clients still
// have theirs.
func TestLoginsOfAllPortsShareALimit(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		// a synctest bubble starts before the layout's epoch
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		d := newFront(t, func(c *Config, _ *Given) { c.AuthFile, c.Loops = auth, 2 })
		defer d.End()
		guesser, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		login := func(from netip.Addr, loop int, password string) string {
			s := d.session(0, loop)
			s.(server.PeerSession).Peer(from)
			in := fmt.Appendf(nil, "set x 0 0 %d\r\nann %s\r\n", 4+len(password), password)
			n, reply, _, err := server.Converse(&s, 0, in, nil)
			for server.Waits(err) {
				time.Sleep(server.ParkPause)
				var k int
				k, reply, _, err = server.Converse(&s, 0, in[n:], reply)
				n += k
			}
			return string(reply)
		}
		for i := range loginlimit.Burst {
			login(guesser, i%2, fmt.Sprint("guess", i))
		}
		http := d.Login()
		for _, c := range []struct {
			from netip.Addr
			want string
		}{{guesser, "CLIENT_ERROR authentication failure\r\n"}, {other, "STORED\r\n"}} {
			who, err := http(t.Context(), c.from, users.Credentials{User: []byte("ann"), Password: []byte("secret")})
			if (who != nil) != (c.from == other) || err != nil {
				t.Errorf("%v, the password over HTTP: %v, %v", c.from, who, err)
			}
			began := time.Now()
			if got := login(c.from, 0, "secret"); got != c.want {
				t.Errorf("%v, the password: %q", c.from, got)
			}
			if took := time.Since(began); (took >= loginlimit.Pause) != (c.from == guesser) {
				t.Errorf("%v is answered after %v", c.from, took)
			}
		}
		if got := login(guesser, 1, "secret"); got != "STORED\r\n" {
			t.Errorf("the password after a pause: %q", got)
		}
	})
}

// TestLoginsWaitForAPlace: a login that finds all places taken is not refused at once, which those who ask
// in a loop would win: it waits for one, a second at most.
func TestLoginsWaitForAPlace(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth")
	const hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if err := os.WriteFile(auth, []byte("ann:"+hash+":*=get\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // in which no time passes while a password is compared
		l := &logins{limit: loginlimit.New(slog.New(slog.DiscardHandler))}
		l.verifier = users.NewVerifier(&l.directory, func() {})
		list, err := users.Load(auth)
		if err != nil {
			t.Fatal(err)
		}
		l.directory.Replace(list)
		peers, ann := netip.MustParseAddr("10.0.0.0"), []byte("ann")
		// waits makes logins until one finds no place, much faster than they are compared.
		waits := func() (w *wait, guess []byte) {
			for {
				peers = peers.Next()
				w, guess = new(wait), []byte(peers.String())
				if a, err := l.ask(w, peers, ann, guess); a != nil || err != id.ErrWait {
					t.Fatalf("%v, %v; want %v", a, err, id.ErrWait)
				}
				if w.comparison == nil {
					return w, guess
				}
			}
		}
		for {
			w, guess := waits()
			w.room = w.room.Add(-roomPause) // a second later
			if a, err := l.ask(w, peers, ann, guess); err == users.ErrBusy && a == nil && w.room.IsZero() {
				break
			} else if w.comparison == nil {
				t.Fatalf("after a second: %v, %v", a, err)
			} // else it got a place meanwhile
		}
		if n := l.busy.Load(); n != 1 {
			t.Errorf("%d logins were refused, want 1", n)
		}
		w, guess := waits()
		// comparisons allocate now and then
		if n := testing.AllocsPerRun(1000, func() { l.ask(w, peers, ann, guess) }); n != 0 {
			t.Errorf("to ask again allocates %v times", n)
		}
		over := make(chan error, 1)
		go func() {
			_, err := l.login(t.Context(), netip.MustParseAddr("10.1.0.0"), ann, []byte("over HTTP"))
			over <- err
		}()
		for {
			a, err := l.ask(w, peers, ann, guess)
			if err == nil && a == nil {
				break
			}
			if err != id.ErrWait {
				t.Fatalf("%v, %v", a, err)
			}
			time.Sleep(server.ParkPause)
		}
		if err := <-over; err != nil || l.busy.Load() != 1 {
			t.Errorf("over HTTP: %v; %d were refused", err, l.busy.Load())
		}
	})
}

// TestNothingIsChargedBeforeTheUsersAreKnown: whoever tries to log in while the users cannot be read has not
// guessed, and gets in at once when they can.
func TestNothingIsChargedBeforeTheUsersAreKnown(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := users.Load(auth)
	if err != nil {
		t.Fatal(err)
	}
	l := &logins{limit: loginlimit.New(slog.New(slog.DiscardHandler))}
	l.verifier = users.NewVerifier(&l.directory, func() {})
	from := netip.MustParseAddr("10.0.0.1")
	for way, login := range map[string]func(password string) (*users.Account, error){
		"on the memcached port": func(password string) (*users.Account, error) {
			return l.ask(new(wait), from, []byte("ann"), []byte(password))
		},
		"over HTTP": func(password string) (*users.Account, error) {
			return l.login(t.Context(), from, []byte("ann"), []byte(password))
		},
		"with a token": func(password string) (*users.Account, error) {
			return l.bearer(from, []byte(password))
		},
	} {
		for i := range 2 * loginlimit.Burst {
			if a, err := login(fmt.Sprint("guess", i)); a != nil || err != users.ErrUnknown {
				t.Errorf("%s: %v, %v; want %v", way, a, err, users.ErrUnknown)
			}
		}
		if l.limit.Refuses(from) {
			t.Errorf("%s: logins were charged before the users were known", way)
		}
	}
	l.directory.Replace(list)
	if a, err := l.ask(new(wait), from, []byte("ann"), []byte("secret")); a == nil || err != nil {
		t.Errorf("once they are known: %v, %v", a, err)
	}
}
