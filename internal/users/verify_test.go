package users

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// home is where logins come from.
var home = netip.MustParseAddr("10.0.0.1")

// cheap makes a user whose hash is so cheap that a file would refuse it.
func cheap(t testing.TB, name, password, may string) User {
	t.Helper()
	h := &hash{memory: 8, time: 1, lanes: 1, salt: []byte(name + "........"), sum: make([]byte, 32)}
	h.sum = h.of([]byte(password))
	return User{Name: name, Rights: rights(t, may), secret: h}
}

type verifying struct {
	*Verifier
	t *testing.T
	d *Directory
}

func verify(t *testing.T, list ...User) verifying {
	d := new(Directory)
	d.Replace(list)
	return verifying{NewVerifier(d, func() {}), t, d}
}

func (v verifying) login(user, password string) string {
	v.t.Helper()
	a, err := v.Login(context.Background(), home, []byte(user), []byte(password))
	switch {
	case err != nil:
		return err.Error()
	case a == nil:
		return "wrong"
	}
	return a.Name + " " + a.Rights().String()
}

// logs in and counts the comparisons with hashes.
func (v verifying) wants(user, password, want string, hashes uint64) {
	v.t.Helper()
	before := v.Compared()
	if got := v.login(user, password); got != want {
		v.t.Errorf("%s, %s: %s; want %s", user, password, got, want)
	}
	if n := v.Compared() - before; n != hashes {
		v.t.Errorf("%s, %s: %d comparisons, want %d", user, password, n, hashes)
	}
}

// Everything that is wrong costs one comparison, whatever it is, and what was compared is remembered.
func TestUnknownUsersCostWhatWrongPasswordsDo(t *testing.T) {
	tok, text, err := User{Name: "tok", Rights: everything(Get)}.WithToken()
	if err != nil {
		t.Fatal(err)
	}
	v := verify(t, cheap(t, "ann", "right", "a*=get"), User{"old", everything(Issue), plain("plain")}, tok)
	v.wants("ann", "right", "ann a*=get", 1)
	v.wants("ann", "right", "ann a*=get", 0)
	v.wants("ann", "wrong", "wrong", 1)
	v.wants("ann", "wrong", "wrong", 0)
	v.wants("nobody", "right", "wrong", 1)
	v.wants("nobody", "right", "wrong", 0)
	v.wants("old", "wrong", "wrong", 1)
	v.wants("tok", "wrong", "wrong", 1)
	v.wants("ann", text, "wrong", 1)
	v.wants("", "", "wrong", 1)
	v.wants("old", "plain", "old *=get,incr", 0)
	v.wants("tok", text, "tok *=get", 0)
	v.wants("annr", "ight", "wrong", 1)
	if a := v.d.Bearer([]byte(text)); a == nil || a.Name != "tok" || v.d.Bearer([]byte(text[1:])) != nil {
		t.Error("the bearer of the token")
	}
}

func TestPlainPasswordsAreNotHashed(t *testing.T) {
	v := verify(t, User{"ann", everything(Issue), plain("one")}, User{"ann", everything(Issue), plain("two")},
		User{"bob", everything(Issue), plain("three")})
	for _, c := range []struct{ user, password, want string }{
		{"ann", "one", "ann *=get,incr"}, {"ann", "two", "ann *=get,incr"}, {"bob", "three", "bob *=get,incr"},
		{"ann", "three", "wrong"}, {"ann", "", "wrong"}, {"", "", "wrong"}, {"annone", "", "wrong"}, {"Ann", "one", "wrong"},
	} {
		v.wants(c.user, c.password, c.want, 0)
	}
}

// What was remembered of a password holds no longer than the password.
func TestChangesHoldAtOnce(t *testing.T) {
	ann, bob := cheap(t, "ann", "right", "a*=get"), cheap(t, "bob", "right", "b*=get")
	v := verify(t, ann, bob)
	v.wants("ann", "right", "ann a*=get", 1)
	v.wants("bob", "right", "bob b*=get", 1)
	a, _ := v.Login(context.Background(), home, []byte("ann"), []byte("right"))
	before := a.Rights()

	again, err := parseRights(ann, "a*=get")
	if err != nil {
		t.Fatal(err)
	}
	v.d.Replace([]User{again, bob})
	if a.Rights() != before {
		t.Error("rights that are the same have another address")
	}
	v.wants("ann", "right", "ann a*=get", 0)
	more, _ := parseRights(ann, "a*=get;c=incr")
	v.d.Replace([]User{more, bob})
	if got := a.Rights().String(); got != "a*=get;c=incr" {
		t.Errorf("an open session may %s", got)
	}
	v.wants("ann", "right", "ann a*=get;c=incr", 0)
	v.d.Replace([]User{cheap(t, "ann", "new", "a*=get"), bob})
	if a.Rights() == nil {
		t.Error("another password closes a session")
	}
	v.wants("ann", "right", "wrong", 1)
	v.wants("ann", "new", "ann a*=get", 1)
	v.wants("bob", "right", "bob b*=get", 0)
	v.d.Replace([]User{bob})
	if a.Rights() != nil {
		t.Error("a user that was removed has rights")
	}
	v.wants("ann", "new", "wrong", 1)
	again, _ = parseRights(ann, "a*=get")
	v.d.Replace([]User{again, bob})
	if a.Rights() != nil {
		t.Error("a session from before the removal has rights again")
	}
	v.wants("ann", "right", "ann a*=get", 1)
	v.d.Replace(nil)
	v.wants("ann", "right", "wrong", 0)
}

// parseRights copies a user by way of a line, as a store does.
func parseRights(u User, text string) (User, error) {
	r, err := ParseRights(text)
	h := *u.secret.(*hash)
	return User{u.Name, r, &h}, err
}

func TestNobodyLogsInBeforeTheUsersAreRead(t *testing.T) {
	v := NewVerifier(new(Directory), func() {})
	if _, _, err := v.Begin(home, []byte("ann"), []byte("x")); err != ErrUnknown {
		t.Error(err)
	}
	if early, ok := ErrUnknown.(interface{ NotYet() bool }); !ok || !early.NotYet() {
		t.Error("it is not told from other errors")
	}
}

func TestTheQueueIsBoundedAndServesEachQuestionOnce(t *testing.T) {
	var woken atomic.Int64
	d := new(Directory)
	d.Replace([]User{cheap(t, "ann", "right", "a*=get")})
	v := NewVerifier(d, func() { woken.Add(1) })
	v.running = hashers // as if both were busy
	begin := func(password string) (*Comparison, error) {
		_, c, err := v.Begin(home, []byte("ann"), []byte(password))
		return c, err
	}
	var all []*Comparison
	for i := range maxQueue {
		c, err := begin(fmt.Sprint("guess", i))
		if err != nil || c == nil {
			t.Fatalf("%d: %v %v", i, c, err)
		}
		all = append(all, c)
	}
	full, err := begin("one more")
	if err != ErrBusy || !v.Full(full) {
		t.Fatalf("%v %v", full, err)
	}
	for what, change := range map[string][2]func(){
		"a free place": {func() { v.waits-- }, func() { v.waits++ }},
		"the question is asked": {func() {
			v.pending[full.question] = all[0]
		}, func() { delete(v.pending, full.question) }},
		"the password was right": {func() {
			v.right[full.mac] = answer{hash: full.hash}
		}, func() { delete(v.right, full.mac) }},
		"the password was wrong": {func() {
			v.wrong[full.mac] = answer{hash: full.hash}
		}, func() { delete(v.wrong, full.mac) }},
		"somebody has no work now": {func() { v.running-- }, func() { v.running++ }},
	} {
		change[0]()
		if v.Full(full) {
			t.Errorf("%s: a login still waits for a place", what)
		}
		change[1]()
	}
	if c, err := begin("guess7"); err != nil || c != all[7] {
		t.Errorf("the same question is asked twice: %v", err)
	}
	if v.Waiting() != maxQueue || v.Compared() != 0 {
		t.Errorf("waiting %d, compared %d", v.Waiting(), v.Compared())
	}
	if a, c, err := v.Result(all[3], home, []byte("ann"), []byte("guess3")); a != nil || c != all[3] || err != nil {
		t.Errorf("the result before the end: %v %v %v", a, c, err)
	}
	v.running = 1
	v.work()
	if v.Compared() != maxQueue || woken.Load() != maxQueue || v.Waiting() != 0 || v.running != 0 {
		t.Errorf("compared %d, woken %d, waiting %d, running %d", v.Compared(), woken.Load(), v.Waiting(), v.running)
	}
	for i, c := range all {
		a, again, err := v.Result(c, home, []byte("ann"), fmt.Append(nil, "guess", i))
		if a != nil || again != nil || err != nil {
			t.Fatalf("%d: %v %v %v", i, a, again, err)
		}
		for _, b := range c.password {
			if b != 0 {
				t.Fatal("a password stays in memory")
			}
		}
	}
	if a, c, err := v.Result(all[0], home, []byte("ann"), []byte("right")); a != nil || c != nil || err == nil {
		t.Errorf("the result of another question: %v %v %v", a, c, err)
	}
	if _, err := begin("one more"); err != nil {
		t.Errorf("with room in the queue: %v", err)
	}
}

// Peers take turns, however many logins each has made; one that finds no place takes that of the peer that has
// most, unless it has as many itself.
func TestPeersShareTheQueue(t *testing.T) {
	d := new(Directory)
	d.Replace([]User{cheap(t, "ann", "right", "a*=get")})
	v := NewVerifier(d, func() {})
	v.running = hashers // as if both were busy
	crowd, second := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
	third := netip.MustParseAddr("2001:db8::1")
	begin := func(from netip.Addr, password string) (*Comparison, error) {
		_, c, err := v.Begin(from, []byte("ann"), []byte(password))
		return c, err
	}
	var all []*Comparison
	for i := range maxQueue {
		c, err := begin(crowd, fmt.Sprint("guess", i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if full, err := begin(crowd, "one more"); err != ErrBusy || !v.Full(full) {
		t.Fatalf("%v; the peer takes a place of its own", err)
	}
	for i := range maxQueue / 2 {
		if _, err := begin(second, fmt.Sprint("second", i)); err != nil {
			t.Fatalf("login %d of another peer: %v", i, err)
		}
	}
	if full, err := begin(second, "one more"); err != ErrBusy || !v.Full(full) {
		t.Errorf("%v; a peer takes a place of one that has as many", err)
	}
	first, err := begin(third, "right")
	if err != nil {
		t.Fatal("the first login of a third peer:", err)
	}
	if v.Waiting() != maxQueue {
		t.Errorf("%d wait, want %d", v.Waiting(), maxQueue)
	}
	a, again, err := v.Result(all[maxQueue-1], crowd, []byte("ann"), fmt.Append(nil, "guess", maxQueue-1))
	if a != nil || err != ErrBusy || again == nil {
		t.Errorf("one that lost its place: %v %v %v", a, again, err)
	}
	var order []peers.Peer
	for range 4 {
		order = append(order, v.pop().peer)
	}
	one, two := peers.Of(crowd), peers.Of(second)
	if want := []peers.Peer{one, two, first.peer, one}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	v.running = 1
	v.work()
	if _, n := v.waiting.Heaviest(); n != 0 || v.waits != 0 || len(v.queue)+len(v.turns) != 0 {
		t.Errorf("%d, %d, %d and %d wait in the end", n, v.waits, len(v.queue), len(v.turns))
	}
}

// However many guesses of a peer wait at the same moment, no more are compared than it may fail. Neighbours behind
// a NAT who all know their passwords get in, however many wait, and so does another peer that asks what a
// guesser asks.
func TestGuessesThatWaitAreLimited(t *testing.T) {
	const crowd = maxQueue
	list := []User{cheap(t, "ann", "right", "a*=get")}
	for i := range crowd {
		list = append(list, cheap(t, fmt.Sprint("user", i), fmt.Sprint("secret", i), "a*=get"))
	}
	synctest.Test(t, func(t *testing.T) {
		v := verify(t, list...)
		v.Limit = loginlimit.New(slog.New(slog.DiscardHandler))
		other := netip.MustParseAddr("10.0.0.2")
		// all begins all logins before the first comparison, and returns how many got in, were wrong, were refused.
		all := func(from netip.Addr, login func(i int) (user, password string)) (in, wrong, refused int) {
			v.running = hashers // as if both were busy
			var each [crowd]*Comparison
			for i := range each {
				user, password := login(i)
				_, c, err := v.Begin(from, []byte(user), []byte(password))
				if c == nil || err != nil {
					t.Fatalf("login %d: %v", i, err)
				}
				each[i] = c
			}
			_, shared, _ := v.Begin(other, each[crowd-1].user, each[crowd-1].password)
			user, password := login(crowd - 1)
			v.running = 1
			v.work()
			for i, c := range each {
				user, password := login(i)
				switch a, again, err := v.Result(c, from, []byte(user), []byte(password)); {
				case a != nil:
					in++
				case err == ErrRefused && again == nil:
					refused++
				case err == nil && again == nil:
					wrong++
				}
			}
			a, c, err := v.Result(shared, other, []byte(user), []byte(password))
			if err != nil || a == nil && c == nil {
				t.Errorf("the other peer: %v, %v, %v", a, c, err)
			}
			synctest.Wait()
			return in, wrong, refused
		}
		if in, _, _ := all(home, func(i int) (string, string) {
			return fmt.Sprint("user", i), fmt.Sprint("secret", i)
		}); in != crowd {
			t.Errorf("%d of %d right logins get in", in, crowd)
		}
		guess := func(i int) (string, string) { return "ann", fmt.Sprint("guess", i) }
		in, wrong, refused := all(home, guess)
		if in != 0 || wrong != loginlimit.Burst || refused != crowd-loginlimit.Burst {
			t.Errorf("%d guesses got in, %d were wrong, %d refused", in, wrong, refused)
		}
		if n := v.Compared(); n != crowd+loginlimit.Burst+1 {
			t.Errorf("%d comparisons, want those of the neighbours, of the guesses, and of the other peer", n)
		}
		v.wants("ann", "right", ErrRefused.Error(), 0)
		time.Sleep(loginlimit.Pause)
		v.wants("ann", "right", "ann a*=get", 1) // what waited is not held against it
	})
}

// A peer that waits for the comparison of another pays for its own failures.
func TestWhoSharesAComparisonIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := verify(t, cheap(t, "ann", "right", "a*=get"))
		v.Limit = loginlimit.New(slog.New(slog.DiscardHandler))
		other := netip.MustParseAddr("10.0.0.2")
		for i := range 2 * loginlimit.Burst {
			from := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
			v.running = hashers
			guess := fmt.Append(nil, "guess", i)
			v.Begin(from, []byte("ann"), guess)
			_, c, err := v.Begin(other, []byte("ann"), guess)
			if want := i >= loginlimit.Burst; (err == ErrRefused) != want {
				t.Fatalf("guess %d of all: %v", i, err)
			}
			v.running = 1
			v.work()
			if c == nil {
				continue
			}
			if a, again, err := v.Result(c, other, []byte("ann"), guess); a != nil || again != nil || err != nil {
				t.Fatalf("guess %d: %v %v %v", i, a, again, err)
			}
		}
	})
}

// A comparison whose asker has gone is not carried out, and whoever asks later gets one of their own.
func TestWhatNobodyAsksForIsNotCompared(t *testing.T) {
	d := new(Directory)
	d.Replace([]User{cheap(t, "ann", "right", "a*=get")})
	v := NewVerifier(d, func() {})
	v.running = hashers
	_, gone, err := v.Begin(home, []byte("ann"), []byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	_, other, _ := v.Begin(home, []byte("ann"), []byte("wrong"))
	v.began = v.began.Add(-patience - time.Second) // later
	v.Result(other, home, []byte("ann"), []byte("wrong"))
	v.running = 1
	v.work()
	if v.Compared() != 1 {
		t.Errorf("%d comparisons, want the one that is asked for", v.Compared())
	}
	a, c, err := v.Result(gone, home, []byte("ann"), []byte("right"))
	if a != nil || c == nil || c == gone || err != nil {
		t.Fatalf("%v %v %v", a, c, err)
	}
	<-c.ended
	if a, _, err := v.Result(c, home, []byte("ann"), []byte("right")); a == nil || err != nil {
		t.Errorf("%v %v", a, err)
	}
}

// A user whose password changes, or who is removed, while it is compared does not get in.
func TestRemovalDuringAComparison(t *testing.T) {
	d := new(Directory)
	d.Replace([]User{cheap(t, "ann", "right", "a*=get")})
	v := NewVerifier(d, func() {})
	_, c, err := v.Begin(home, []byte("ann"), []byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	<-c.ended
	for _, list := range [][]User{{cheap(t, "ann", "new", "a*=get")}, {cheap(t, "bob", "x", "")}} {
		d.Replace(list)
		if a, c, err := v.Result(c, home, []byte("ann"), []byte("right")); a != nil || c != nil || err != nil {
			t.Errorf("%v: %v %v %v", list, a, c, err)
		}
	}
}

func TestMemoryOfAnswersIsBoundedAndExpires(t *testing.T) {
	v := verify(t, cheap(t, "ann", "right", "a*=get"))
	v.wants("ann", "right", "ann a*=get", 1)
	for i := range 3*maxRemember + 5 {
		v.login("ann", fmt.Sprint(i))
	}
	if len(v.wrong) > maxRemember || len(v.right) != 1 {
		t.Errorf("%d wrong and %d right answers are remembered", len(v.wrong), len(v.right))
	}
	v.wants("ann", "right", "ann a*=get", 0)
	for m, a := range v.right {
		v.right[m] = answer{a.hash, time.Now()}
	}
	v.wants("ann", "right", "ann a*=get", 1)
}

func TestLoginEndsWithItsContext(t *testing.T) {
	v := verify(t, cheap(t, "ann", "right", "a*=get"))
	v.running = hashers
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if a, err := v.Login(ctx, home, []byte("ann"), []byte("right")); a != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", a, err)
	}
}
