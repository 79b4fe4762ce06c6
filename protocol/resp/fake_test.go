package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// fake is the program behind the protocol in tests. The ids of the default source start at 100;
// declared are orders, a counter of step 2 from 1 on, uuid, whose ids are no numbers, and flake, whose
// ids cannot be reserved. Keys that begin with d: are unknown names.
type fake struct {
	transcript.Ids
	moments []int64 // of requests of fakePunctual
	now     int64   // the last moment, in steps of 64 ns
}

func newFake() *fake {
	return &fake{Ids: transcript.Ids{
		Next:   map[string]uint64{"": 100, "orders": 1, "flake": 5_000_000_000_000_000_000, "uuid": 7},
		Stride: map[string]uint64{"orders": 2}, Used: map[string]int{},
	}}
}

type notYet struct{ error }

func (notYet) NotYet() bool { return true }

type final struct{ error }

func (final) Final() bool { return true }

func (f *fake) Named(key []byte) id.Source {
	switch s := (transcript.Supply{Ids: &f.Ids, Name: string(key)}); s.Name {
	case "orders":
		return transcript.Numbers{Supply: s}
	case "uuid":
		return transcript.Texts{Supply: s, Of: id.UUID, High: 0x0190_0000_0000_7000}
	case "flake":
		return s
	case "here", "here2", "away", "{away}2", "away2", "nobody":
		return fakePunctual{transcript.Numbers{Supply: s}, f}
	}
	return nil
}

func (f *fake) Source(key []byte) id.Source {
	if s := f.Named(key); s != nil {
		return s
	}
	if len(key) > 1 && string(key[:2]) == "d:" {
		return transcript.Supply{Ids: &f.Ids, Name: string(key)}
	}
	return transcript.Supply{Ids: &f.Ids}
}

// A fakePunctual is led by this server if its name says so.
type fakePunctual struct {
	transcript.Numbers
	fake *fake
}

func (p fakePunctual) Moment() int64 {
	p.fake.now++
	return p.fake.now << 6
}

func (p fakePunctual) Mint(when id.When, n int, _ bool) (id.Run, error) {
	if when.Moment != 0 {
		p.fake.moments = append(p.fake.moments, when.Moment)
	}
	if err := p.led(when); err != nil {
		return id.Run{}, err
	}
	return p.Numbers.Mint(id.At(0), n, false)
}

func (p fakePunctual) Reserve(when id.When, n int) (id.Run, error) {
	if err := p.led(when); err != nil {
		return id.Run{}, err
	}
	return p.Numbers.Reserve(id.At(0), n)
}

func (p fakePunctual) led(when id.When) error {
	if when.Moment == 0 {
		return id.ErrMoment
	}
	if p.Waits != nil && p.Waits.IntN(3) == 0 {
		return id.ErrWait
	}
	if at, elsewhere := p.Where(); elsewhere && when.Redirect {
		return at
	}
	return nil
}

func (p fakePunctual) Where() (at id.Elsewhere, elsewhere bool) {
	at.Slot = id.Slot(p.Name)
	if elsewhere = strings.Contains(p.Name, "away"); elsewhere {
		at.Address = "ids.example:11212"
	}
	return at, elsewhere || p.Name == "nobody"
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
