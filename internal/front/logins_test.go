package front

import (
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
