package users

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// Comparing a password with an argon2id hash takes tens of milliseconds and as much memory as the hash
// says. An event loop must not do that, and neither may clients make the daemon do it without limit. So
// comparisons run in a few goroutines with a queue, and the sessions wait:
//
//   - at most two run at once, on hosts with four processors or more, and maxQueue wait behind them. Peers
//     take turns, so that a first login waits for one of each other peer's, however many those have made. A
//     login beyond maxQueue takes the place of the newest of the peer that has most, or is refused as
//     ErrBusy if its own peer has as many;
//   - they run in processes of low priority, if there is a way to start those, see beside.go; else their
//     memory is collected at once: the runtime would let several times as much pile up;
//   - one comparison serves all who ask the same at the same time, as the connections of a pool do;
//   - the answer is remembered for a minute, under a MAC whose key is this process's: as long as the
//     same hash is the user's, so a new password or a removal holds at once;
//   - one that no session has asked after for a while is not carried out: its client has gone. Nor is one
//     whose peer has failed too often by the time its turn comes: else all that wait would be guesses;
//   - a wrong answer costs one comparison, whether the user exists or not. If no user has a hash, there
//     are no such comparisons.

// hashers is how many comparisons run at once.
var hashers = min(max(runtime.NumCPU()/2, 1), 2)

const (
	maxQueue     = 64
	maxRemember  = 1024 // answers, right and wrong ones each
	rememberTime = time.Minute
	patience     = 2 * time.Second // a session asks again every 50 ms
)

// ErrBusy is the error of a login that could not be decided because too many others are being decided.
// The client may try again.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "too many logins at this moment: try again" }

// ErrRefused is the error of a login whose peer has failed too often, right or wrong.
var ErrRefused = errors.New("too many failed logins")

// ErrUnknown is the error of every login before the users have been read.
var ErrUnknown error = unknownError{}

type unknownError struct{}

func (unknownError) Error() string {
	return "nobody can log in yet: the users have not been read from their store"
}

// NotYet tells grammars that the daemon is not ready.
func (unknownError) NotYet() bool { return true }

// A Limit says how often a peer may fail. Any goroutine may use it.
type Limit interface {
	Refuses(from netip.Addr) bool                  // asked right before each comparison
	Charge(from netip.Addr, user, password []byte) // a wrong password, right after it; it keeps neither slice
}

// A Verifier decides logins. Any goroutine may use it.
type Verifier struct {
	// Limit is how often a peer may fail; nil = without limit. Set it before use.
	Limit Limit
	// Beside returns what starts a process that calls CompareBeside with its standard input and output;
	// nil = comparisons run in this process, as they do where it cannot be started. Set it before use.
	Beside func() *exec.Cmd

	of    *Directory
	wake  func() // called when a Comparison has ended
	began time.Time
	key   [32]byte

	mu      sync.Mutex
	running int
	wait    time.Duration                // for the answer of another process
	keep    time.Duration                // for which such a process waits for the next comparison
	idle    []*beside                    // processes that no goroutine uses, the one that was used last at the end
	queue   map[peers.Peer][]*Comparison // those that wait, the oldest first
	turns   []peers.Peer                 // whose wait, the next one first
	waiting peers.Weights                // how many of each peer wait
	waits   int                          // all of them
	pending map[question]*Comparison     // in the queue, or running
	right   map[mac]answer
	wrong   map[mac]answer

	compared atomic.Uint64
}

// NewVerifier makes a Verifier for the users of d. wake is called from other goroutines whenever
// sessions that wait for a Comparison should ask again.
func NewVerifier(d *Directory, wake func()) *Verifier {
	v := &Verifier{
		of: d, wake: wake, began: time.Now(), wait: besidePatience, keep: besideIdle,
		queue: map[peers.Peer][]*Comparison{}, pending: map[question]*Comparison{},
		right: map[mac]answer{}, wrong: map[mac]answer{},
	}
	rand.Read(v.key[:])
	return v
}

// A mac stands for a user and a password.
type mac [16]byte

// A question is whether a password is the one of a hash.
type question struct {
	mac  mac
	hash *hash
}

// An answer is remembered for a question.
type answer struct {
	hash  *hash
	until time.Time
}

// A Comparison of a password with a hash waits, runs or has ended.
type Comparison struct {
	question
	from     netip.Addr // of the client who asked first
	peer     peers.Peer // its peer, which is charged if the password is wrong
	user     []byte
	password []byte       // cleared at the end
	asked    atomic.Int64 // when a session last asked, ns since the Verifier began; or always
	ended    chan struct{}
	is       bool // once it has ended
	given    bool // up: no session asked any more, another peer needed the place, or its peer failed too often
}

// always is the time at which those have asked last who wait for the channel.
const always = 1<<63 - 1

func (v *Verifier) macOf(user, password []byte) (m mac) {
	h := hmac.New(sha256.New, v.key[:])
	h.Write(user)
	h.Write([]byte{0})
	h.Write(password)
	copy(m[:], h.Sum(nil))
	return m
}

// Begin decides a login at once, if it can: then c is nil, and a is the user or nil if anything is
// wrong. Otherwise the caller asks Result until that knows. The error is ErrUnknown, ErrRefused or ErrBusy;
// beside ErrBusy, c is what Full needs. Begin keeps neither slice. from is where the client is.
func (v *Verifier) Begin(from netip.Addr, user, password []byte) (a *Account, c *Comparison, err error) {
	if v.refuses(from) {
		return nil, nil, ErrRefused
	}
	s := v.of.set.Load()
	if s == nil {
		return nil, nil, ErrUnknown
	}
	switch a := s.fast(user, password); {
	case a != nil:
		return a, nil, nil
	case s.decoy == nil:
		v.charge(from, user, password)
		return nil, nil, nil
	}
	q := question{v.macOf(user, password), s.hashes[string(user)]}
	if q.hash == nil {
		q.hash = s.decoy
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	switch {
	case holds(v.right, q, now):
		return s.accounts[string(user)], nil, nil
	case holds(v.wrong, q, now):
		v.charge(from, user, password)
		return nil, nil, nil
	}
	if c = v.pending[q]; c == nil {
		p := peers.Of(from)
		switch {
		case v.full(p):
			return nil, &Comparison{question: q, peer: p}, ErrBusy
		case v.crowded():
			v.giveUp(v.newest())
		}
		c = &Comparison{
			question: q, from: from, peer: p, user: bytes.Clone(user), password: bytes.Clone(password),
			ended: make(chan struct{}),
		}
		v.pending[q] = c
		v.push(c)
		if v.running < hashers {
			v.running++
			go v.work()
		}
	}
	v.touch(c)
	return nil, c, nil
}

func (v *Verifier) refuses(from netip.Addr) bool { return v.Limit != nil && v.Limit.Refuses(from) }

func (v *Verifier) charge(from netip.Addr, user, password []byte) {
	if v.Limit != nil {
		v.Limit.Charge(from, user, password)
	}
}

// Full reports whether Begin would still say ErrBusy, as it did beside c. It costs a tenth of Begin, and
// allocates nothing: hundreds of sessions may ask whenever a comparison has ended.
func (v *Verifier) Full(c *Comparison) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.full(c.peer) && v.pending[c.question] == nil &&
		v.right[c.mac].hash != c.hash && v.wrong[c.mac].hash != c.hash
}

// crowded reports whether there is no free place.
func (v *Verifier) crowded() bool { return v.running == hashers && v.waits >= maxQueue }

// full reports whether there is no place for a peer, nor one that it may take from another: that must have
// more than it then has.
func (v *Verifier) full(p peers.Peer) bool {
	_, most := v.waiting.Heaviest()
	return v.crowded() && most <= v.waiting.Of(p)+1
}

// push puts c into the queue.
func (v *Verifier) push(c *Comparison) {
	line := v.queue[c.peer]
	if len(line) == 0 {
		v.turns = append(v.turns, c.peer)
	}
	v.queue[c.peer] = append(line, c)
	v.waiting.Add(c.peer, 1)
	v.waits++
}

// pop takes the oldest out of the queue, of the peer whose turn it is.
func (v *Verifier) pop() *Comparison {
	p := v.turns[0]
	c := v.queue[p][0]
	v.turns = v.turns[1:]
	if v.left(p, v.queue[p][1:]) {
		v.turns = append(v.turns, p)
	}
	return c
}

// newest takes the newest out of the queue, of the peer that has most, which has two at least.
func (v *Verifier) newest() *Comparison {
	p, _ := v.waiting.Heaviest()
	line := v.queue[p]
	last := len(line) - 1
	c := line[last]
	v.left(p, line[:last])
	return c
}

// left says what is left of a peer's line after one was taken out of it, and returns whether anything is.
func (v *Verifier) left(p peers.Peer, line []*Comparison) bool {
	v.waiting.Add(p, -1)
	v.waits--
	if len(line) == 0 {
		delete(v.queue, p)
		return false
	}
	v.queue[p] = line
	return true
}

// giveUp ends a comparison that is not carried out. Those who ask for it begin again.
func (v *Verifier) giveUp(c *Comparison) {
	c.given = true
	v.end(c)
}

// end ends a comparison.
func (v *Verifier) end(c *Comparison) {
	clear(c.password)
	delete(v.pending, c.question)
	close(c.ended)
}

func holds(known map[mac]answer, q question, now time.Time) bool {
	a, ok := known[q.mac]
	return ok && a.hash == q.hash && now.Before(a.until)
}

// touch says that a session still waits for it.
func (v *Verifier) touch(c *Comparison) {
	if c.asked.Load() != always {
		c.asked.Store(int64(time.Since(v.began)))
	}
}

// Result returns what Begin would: c itself while it has not ended. from, user and password must be those that
// Begin got; others get an error.
func (v *Verifier) Result(c *Comparison, from netip.Addr, user, password []byte) (*Account, *Comparison, error) {
	select {
	case <-c.ended:
	default:
		v.touch(c)
		return nil, c, nil
	}
	switch {
	case v.macOf(user, password) != c.mac:
		return nil, nil, errors.New("another login is under way")
	case c.given, c.peer != peers.Of(from): // another peer's failure was not charged to this one
		return v.Begin(from, user, password)
	case !c.is:
		return nil, nil, nil
	}
	// The users may have changed meanwhile.
	s := v.of.set.Load()
	if s.hashes[string(user)] != c.hash {
		return nil, nil, nil
	}
	return s.accounts[string(user)], nil, nil
}

// Login decides a login and waits for that as long as ctx lasts.
func (v *Verifier) Login(ctx context.Context, from netip.Addr, user, password []byte) (*Account, error) {
	a, c, err := v.Begin(from, user, password)
	for err == nil && c != nil {
		c.asked.Store(always)
		select {
		case <-c.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		a, c, err = v.Result(c, from, user, password)
	}
	return a, err
}

// work carries out comparisons until there are no more.
func (v *Verifier) work() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.waits > 0 {
		c := v.pop()
		asked := c.asked.Load()
		if gone := asked != always && time.Since(v.began)-time.Duration(asked) > patience; gone || v.refuses(c.from) {
			v.giveUp(c)
		} else {
			v.mu.Unlock()
			c.is = v.compare(c.hash, c.password)
			v.compared.Add(1)
			if !c.is {
				v.charge(c.from, c.user, c.password)
			}
			v.mu.Lock()
			v.remember(c)
			v.end(c)
		}
		v.mu.Unlock()
		v.wake()
		v.mu.Lock()
	}
	v.turns = nil
	v.running--
}

// compare compares in another process, or else in this one.
func (v *Verifier) compare(h *hash, password []byte) bool {
	if b := v.takeBeside(); b != nil {
		is, err := b.is(h, password)
		if err == nil {
			v.putBack(b)
			return is
		}
		go b.close()
	}
	is := h.is(password)
	if h.memory >= minMemory {
		runtime.GC()
	}
	return is
}

// takeBeside returns a process that compares; nil = there is none.
func (v *Verifier) takeBeside() *beside {
	v.mu.Lock()
	last := len(v.idle) - 1
	if last >= 0 {
		b := v.idle[last]
		v.idle = v.idle[:last]
		v.mu.Unlock()
		return b
	}
	v.mu.Unlock()
	if v.Beside == nil {
		return nil
	}
	b, err := startBeside(v.Beside(), v.wait)
	if err != nil {
		return nil
	}
	return b
}

// putBack keeps a process for the next comparison, for a while.
func (v *Verifier) putBack(b *beside) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.idle = append(v.idle, b)
	b.used = time.Now()
	time.AfterFunc(v.keep, v.closeIdle)
}

// closeIdle ends the processes that were not used for a while.
func (v *Verifier) closeIdle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.idle = slices.DeleteFunc(v.idle, func(b *beside) bool {
		if time.Since(b.used) < v.keep {
			return false
		}
		go b.close()
		return true
	})
}

// Close ends the processes that compare. The Verifier can still be used.
func (v *Verifier) Close() {
	v.mu.Lock()
	idle := v.idle
	v.idle = nil
	v.mu.Unlock()
	for _, b := range idle {
		b.close()
	}
}

// remember keeps the answer of a comparison. When there is no room, all are forgotten that are worth
// least: those that have expired, or else all of their kind.
func (v *Verifier) remember(c *Comparison) {
	known := v.wrong
	if c.is {
		known = v.right
	}
	now := time.Now()
	if len(known) >= maxRemember {
		for m, a := range known {
			if !now.Before(a.until) {
				delete(known, m)
			}
		}
	}
	if len(known) >= maxRemember {
		clear(known)
	}
	known[c.mac] = answer{c.hash, now.Add(rememberTime)}
}

// Compared returns how many passwords were compared with hashes.
func (v *Verifier) Compared() uint64 { return v.compared.Load() }

// Waiting returns how many comparisons wait or run.
func (v *Verifier) Waiting() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pending)
}
