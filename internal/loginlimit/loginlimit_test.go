package loginlimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A fixture accepts ann with "right", and counts comparisons.
type fixture struct {
	*Limiter
	t        *testing.T
	compared int
	log      bytes.Buffer
}

func within(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t}
		f.Limiter = New(slog.New(slog.NewTextHandler(&f.log, nil)))
		test(f)
	})
}

func (f *fixture) Allow(from netip.Addr, user, password []byte) bool {
	if f.Refuses(from) {
		f.Failed(from, true)
		return false
	}
	f.compared++
	if string(user) == "ann" && string(password) == "right" {
		return true
	}
	f.Charge(from, user, password)
	f.Failed(from, false)
	return false
}

func (f *fixture) guess(from, password string, n int) {
	f.t.Helper()
	for i := range n {
		if f.Allow(address(from), []byte("ann"), fmt.Appendf(nil, password, i)) {
			f.t.Fatalf("%s was let in with %s", from, password)
		}
	}
}

func (f *fixture) enters(from string, want bool) {
	f.t.Helper()
	if got := f.Allow(address(from), []byte("ann"), []byte("right")); got != want {
		f.t.Errorf("%q with the right password: %v", from, got)
	}
}

func address(s string) netip.Addr {
	a, _ := netip.ParseAddr(s) // "" = a unix socket
	return a
}

// However fast a peer guesses, only a limited number of guesses is compared, and beyond that a
// right guess looks like a wrong one.
func TestGuessesAreBoundedPerPeer(t *testing.T) {
	within(t, func(f *fixture) {
		f.guess("10.0.0.1", "wrong%d", 100_000)
		if f.compared != Burst {
			t.Errorf("%d guesses were compared, of a burst of %d", f.compared, Burst)
		}
		f.enters("10.0.0.1", false)
		f.enters("10.0.0.2", true)
		for range 100 {
			time.Sleep(Pause - 1)
			f.enters("10.0.0.1", false)
			time.Sleep(1 * time.Nanosecond)
			f.compared = 0
			f.guess("10.0.0.1", "again%d"+time.Now().String(), 1000)
			if f.compared != 1 {
				t.Fatalf("%d guesses were compared after a pause", f.compared)
			}
		}
		time.Sleep(Pause)
		f.enters("10.0.0.1", true)
		f.enters("10.0.0.1", true) // a right password costs nothing
		time.Sleep(time.Hour)
		f.compared = 0
		f.guess("10.0.0.1", "much later%d", 1000)
		if f.compared != Burst {
			t.Errorf("%d guesses were compared after an hour, of a burst of %d", f.compared, Burst)
		}
	})
}

// Programs that have not learned of a new password try the old one forever. Their neighbours can
// still log in.
func TestAWrongPasswordThatIsRepeatedIsOneGuess(t *testing.T) {
	within(t, func(f *fixture) {
		for range 1000 {
			for _, old := range []string{"old%d", "older%d", "oldest%d"} {
				f.guess("10.0.0.1", old, 1)
			}
		}
		f.enters("10.0.0.1", true)
		if f.compared != 3001 {
			t.Errorf("%d compared", f.compared)
		}
		if f.Allow(address("10.0.0.1"), []byte("bob"), []byte("old0")) {
			t.Error("bob was let in")
		}
		f.compared = 0
		f.guess("10.0.0.1", "new%d", 1000)
		if f.compared != Burst-4 {
			t.Errorf("%d guesses were compared after four, of a burst of %d", f.compared, Burst)
		}
	})
}

// Behind a NAT, programs of many users go on with passwords that were changed, and one of their neighbours
// guesses. Those who know their password get in nevertheless, until the guesses have used up the allowance.
func TestNeighboursWithOldPasswords(t *testing.T) {
	within(t, func(f *fixture) {
		const neighbours = maxUsers - 1
		stale := func() {
			for i := range neighbours {
				if f.Allow(address("10.0.0.1"), fmt.Append(nil, "user", i), []byte("old")) {
					t.Fatal("a wrong password is right")
				}
			}
		}
		for range maxUsers { // each once, as slowly as is free
			time.Sleep(Burst * Pause)
			stale()
		}
		for range 1000 {
			f.enters("10.0.0.1", true)
			stale()
		}
		for i := range Burst - 1 {
			f.enters("10.0.0.1", true)
			f.Allow(address("10.0.0.1"), []byte("ann"), fmt.Append(nil, "guess", i))
			stale()
		}
		f.enters("10.0.0.1", true)
		if n := len(f.peers[address("10.0.0.1")].users); n != maxUsers {
			t.Errorf("%d users are remembered, want %d", n, maxUsers)
		}
		for i := range 1000 {
			f.Allow(address("10.0.0.1"), fmt.Append(nil, "other", i), []byte("old"))
		}
		if n := len(f.peers[address("10.0.0.1")].users); n != maxUsers {
			t.Errorf("%d users are remembered, want %d", n, maxUsers)
		}
		f.enters("10.0.0.1", false)
	})
}

func TestPeersAreNetworks(t *testing.T) {
	for _, c := range []struct {
		guesser, other string
		same           bool
	}{
		{"10.0.0.1", "::ffff:10.0.0.1", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
	} {
		within(t, func(f *fixture) {
			f.guess(c.guesser, "wrong%d", Burst)
			f.enters(c.guesser, false)
			f.enters(c.other, !c.same)
		})
	}
}

// Peers beyond the number that can be remembered share one allowance, as long as the others have
// failures to remember.
func TestTooManyPeers(t *testing.T) {
	within(t, func(f *fixture) {
		for i := range MaxPeers + 1000 {
			f.guess(fmt.Sprintf("10.0.%d.%d", i/256, i%256), "wrong%d", 2*Burst)
		}
		if want := (MaxPeers + 1) * Burst; f.compared != want || len(f.peers) != MaxPeers {
			t.Errorf("%d guesses were compared, want %d; %d peers", f.compared, want, len(f.peers))
		}
		f.enters("192.0.2.1", false)
		time.Sleep(Burst * Pause)
		f.enters("192.0.2.1", true)
		f.compared = 0
		f.guess("192.0.2.1", "wrong%d", 2*Burst)
		f.guess("192.0.2.2", "wrong%d", 2*Burst)
		if f.compared != 2*Burst || len(f.peers) != 2 {
			t.Errorf("%d guesses of two peers were compared; %d peers", f.compared, len(f.peers))
		}
	})
}

func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	within(t, func(f *fixture) {
		logged := func(want string) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock() // lines are written under it
			defer f.mu.Unlock()
			if got := f.log.String(); want == "" && got != "" || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 {
				t.Errorf("logged %q, want %q", got, want)
			}
			f.log.Reset()
		}
		f.enters("10.0.0.1", true)
		logged("")
		f.guess("10.0.0.1", "wrong%d", 1)
		logged(`level=WARN msg="logins failed" count=1 not_compared=0 peer=10.0.0.1 of_peer=1`)
		f.guess("2001:db8::7", "wrong%d", 17)
		f.guess("10.0.0.1", "wrong%d", 2)
		time.Sleep(telling - 1)
		logged("")
		time.Sleep(1 * time.Nanosecond)
		logged("count=19 not_compared=7 peer=2001:db8::/64 of_peer=17\n")
		time.Sleep(telling / 2)
		f.guess("", "wrong%d", 1)
		logged("")
		time.Sleep(telling / 2)
		logged("count=1 not_compared=0 peer=\"unix socket\" of_peer=1\n")
		time.Sleep(time.Hour)
		logged("")
		f.guess("10.0.0.1", "wrong%d", 1)
		logged("count=1 not_compared=0 peer=10.0.0.1 of_peer=1\n")
	})
}
