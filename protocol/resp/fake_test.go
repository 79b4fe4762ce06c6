package resp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// fake is the program behind the protocol in tests. The ids of the default source start at 100;
// declared are orders, a counter of step 2 from 1 on, uuid, whose ids are no numbers, and flake, whose
// ids cannot be reserved. Keys that begin with d: are unknown names. Each source has a budget, after
// which it refuses.
type fake struct {
	next    map[string]uint64
	used    map[string]int
	budget  int        // ids of each source before it refuses; 0 = no end
	most    int        // ids of one Mint; 0 = no limit
	waits   *rand.Rand // if not nil, the sources wait at random
	turns   string     // of Mints and Reserves to come: w waits, i issues
	refusal error      // instead of ids
	log     []string   // what was asked for
	moments []int64    // of requests of fakePunctual
	now     int64      // the last moment, in steps of 64 ns
}

func newFake() *fake {
	return &fake{next: map[string]uint64{"": 100, "orders": 1, "flake": 5_000_000_000_000_000_000, "uuid": 7},
		used: map[string]int{}}
}

var errSpent = errors.New("no id\r\nfor now")

type (
	fakeSource struct {
		*fake
		name string
	}
	fakeCounter struct{ fakeSource }
	fakeTexter  struct{ fakeSource }
	notYet      struct{ error }
)

func (notYet) NotYet() bool { return true }

type final struct{ error }

func (final) Final() bool { return true }

func (f *fake) Named(key []byte) id.Source {
	switch s := (fakeSource{f, string(key)}); s.name {
	case "orders":
		return fakeCounter{s}
	case "uuid":
		return fakeTexter{s}
	case "flake":
		return s
	case "here", "here2", "away", "{away}2", "away2", "nobody":
		return fakePunctual{fakeCounter{s}}
	}
	return nil
}

func (f *fake) Source(key []byte) id.Source {
	if s := f.Named(key); s != nil {
		return s
	}
	if len(key) > 1 && string(key[:2]) == "d:" {
		return fakeSource{f, string(key)}
	}
	return fakeSource{f, ""}
}

func (s fakeSource) Mint(_ id.When, n int, bulk bool) (id.Run, error) {
	s.log = append(s.log, fmt.Sprintf("%d*%s", n, s.name)+map[bool]string{true: " bulk"}[bulk])
	if err := s.rest(); err != nil {
		return id.Run{}, err
	}
	if s.most > 0 {
		n = min(n, s.most)
	}
	if s.budget > 0 {
		if n = min(n, s.budget-s.used[s.name]); n == 0 {
			return id.Run{}, errSpent
		}
	}
	return s.issue(n), nil
}

// rest returns what a source says instead of looking for ids.
func (s fakeSource) rest() error {
	if s.turns != "" {
		turn := s.turns[0]
		if s.turns = s.turns[1:]; turn == 'w' {
			return id.ErrWait
		}
	}
	if s.waits != nil && s.waits.IntN(3) == 0 {
		return id.ErrWait
	}
	if len(s.name) > 1 && s.name[1] == ':' {
		return id.UnknownName(s.name)
	}
	return s.refusal
}

func (s fakeSource) issue(n int) id.Run {
	stride := uint64(1)
	if s.name == "orders" {
		stride = 2
	}
	first := s.next[s.name]
	s.next[s.name] += stride * uint64(n)
	s.used[s.name] += n
	return id.Run{First: first, Stride: stride, N: n}
}

func (c fakeCounter) Reserve(_ id.When, n int) (id.Run, error) {
	c.log = append(c.log, fmt.Sprintf("reserve %d*%s", n, c.name))
	if err := c.rest(); err != nil {
		return id.Run{}, err
	}
	if c.budget > 0 && c.budget-c.used[c.name] < n {
		return id.Run{}, errSpent
	}
	return c.issue(n), nil
}

// A fakePunctual is led by this server if its name says so.
type fakePunctual struct{ fakeCounter }

func (p fakePunctual) Moment() int64 {
	p.now++
	return p.now << 6
}

func (p fakePunctual) Mint(when id.When, n int, _ bool) (id.Run, error) {
	if when.Moment != 0 {
		p.moments = append(p.moments, when.Moment)
	}
	if err := p.led(when); err != nil {
		return id.Run{}, err
	}
	return p.fakeSource.Mint(id.At(0), n, false)
}

func (p fakePunctual) Reserve(when id.When, n int) (id.Run, error) {
	if err := p.led(when); err != nil {
		return id.Run{}, err
	}
	return p.fakeCounter.Reserve(id.At(0), n)
}

func (p fakePunctual) led(when id.When) error {
	if when.Moment == 0 {
		return id.ErrMoment
	}
	if p.waits != nil && p.waits.IntN(3) == 0 {
		return id.ErrWait
	}
	if at, elsewhere := p.Where(); elsewhere && when.Redirect {
		return at
	}
	return nil
}

func (p fakePunctual) Where() (at id.Elsewhere, elsewhere bool) {
	at.Slot = id.Slot(p.name)
	if elsewhere = strings.Contains(p.name, "away"); elsewhere {
		at.Address = "ids.example:11212"
	}
	return at, elsewhere || p.name == "nobody"
}

func (fakeTexter) Form() id.Form { return id.UUID }

func (x fakeTexter) Mint(when id.When, _ int, bulk bool) (id.Run, error) {
	run, err := x.fakeSource.Mint(when, 1, bulk)
	if err != nil {
		return run, err
	}
	return id.TextRun(id.UUID, 0x0190_0000_0000_7000, run.First), nil
}

func (f *fake) Stats(group []byte, emit func(name, value string)) bool {
	for _, s := range [][2]string{
		{"pid", "1"}, {"uptime", "60"}, {"version", "1.2.3"}, {"curr_connections", "4"}, {"ready", "1"},
		{"odd", "a\r\nb\x1b\u202e"},
	} {
		emit(s[0], s[1])
	}
	return true
}

// newSession makes a session that takes inline commands too.
func newSession(f *fake) *Session {
	return NewSession(&protocol.Config{Handler: f, Counters: new(protocol.Counters), Version: "1.2.3",
		Cluster: "ids.example|192.0.2.7|6379"}, true)
}

// counted returns what a session counted.
func counted(s *Session) (n protocol.Counts) {
	s.config.Counters.AddTo(&n)
	return n
}

// most is what a session may leave unconsumed.
const most = 2 * maxCommand

func answerTo(t testing.TB, s *Session, pieces ...[]byte) []byte {
	t.Helper()
	return transcript.Answer(t, s, most, pieces...)
}

// frame writes a command as an array of strings.
func frame(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}
