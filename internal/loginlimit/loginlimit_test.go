package loginlimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A fixture accepts ann with "right", and counts comparisons.
type fixture struct {
	*Limiter
	compared int
	log      bytes.Buffer
}

// login says whether a user of a peer is let in.
func (f *fixture) login(from netip.Addr, user, password string) bool {
	if f.Refuses(from) {
		f.Failed(from, true)
		return false
	}
	f.compared++
	if user == "ann" && password == "right" {
		return true
	}
	f.Charge(from, []byte(user), []byte(password))
	f.Failed(from, false)
	return false
}

// logged is what was logged since the last time.
func (f *fixture) logged() string {
	f.mu.Lock() // lines are written under it
	defer f.mu.Unlock()
	defer f.log.Reset()
	return script.Logged(f.log.String())
}

// address of a peer; "unix" is a client of a unix socket.
func address(peer string) netip.Addr {
	a, _ := netip.ParseAddr(peer)
	return a
}

// TestLogins: who is let in, and how many guesses are compared, in testdata/logins.txt.
func TestLogins(t *testing.T) {
	steps.Run(t, "testdata/logins.txt", func(*testing.T) steps.Calls {
		f := new(fixture)
		f.Limiter = New(slog.New(slog.NewTextHandler(&f.log, nil)))
		// several has logins fail, and says how many were compared.
		several := func(n int, from func(i int) netip.Addr, user, password func(i int) string) string {
			before := f.compared
			for i := range n {
				if f.login(from(i), user(i), password(i)) {
					return "let in"
				}
			}
			return fmt.Sprintf("%d of %d compared", f.compared-before, n)
		}
		same := func(text string) func(int) string { return func(int) string { return text } }
		numbered := func(text string) func(int) string { return func(i int) string { return fmt.Sprint(text, i) } }
		at := func(peer string) func(int) netip.Addr { return func(int) netip.Addr { return address(peer) } }
		guesses := func(peer string, n int, text string) string {
			return several(n, at(peer), same("ann"), numbered(text))
		}
		return steps.Calls{
			"":      f.logged,
			"sleep": time.Sleep,
			"enters": func(peer string) string {
				if f.login(address(peer), "ann", "right") {
					return "let in"
				}
				return "refused"
			},
			"guesses": guesses, // text0, text1 and so on
			"guesses-and-pauses": func(peer string, times, n int) string {
				said := map[string]int{}
				for i := range times {
					time.Sleep(Pause - 1)
					early := f.login(address(peer), "ann", "right")
					time.Sleep(1 * time.Nanosecond)
					said[fmt.Sprintf("%v early, then %s", early, guesses(peer, n, fmt.Sprint("pause", i, "/")))]++
				}
				return fmt.Sprint(said)
			},
			"repeats": func(peer string, n int, user, passwords string) string { // passwords between /, in turn
				all := strings.Split(passwords, "/")
				return several(n, at(peer), same(user), func(i int) string { return all[i%len(all)] })
			},
			"neighbours": func(peer string, n int, name, password string) string { // name0, name1 and so on
				return several(n, at(peer), numbered(name), same(password))
			},
			"neighbours-slowly": func(peer string, n, times int) string {
				for range times {
					time.Sleep(Burst*Pause + time.Second)
					several(n, at(peer), numbered("user"), same("old"))
				}
				return fmt.Sprint(len(f.peers[address(peer)].users), " users remembered")
			},
			"peers": func(n, each int) string {
				return several(n*each, func(i int) netip.Addr {
					return netip.AddrFrom4([4]byte{10, 0, byte(i / each >> 8), byte(i / each)})
				}, same("ann"), func(i int) string { return fmt.Sprint("wrong", i%each) })
			},
			"remembered": func() (peers, users int) {
				for _, p := range f.peers {
					users = max(users, len(p.users))
				}
				return len(f.peers), users
			},
		}
	})
}
