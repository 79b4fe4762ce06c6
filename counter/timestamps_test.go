package counter

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

const tick = 127 // 128 positions in a tick

func timestampsOf(t *testing.T) Record {
	t.Helper()
	d := Definition{Name: "tx", Start: 1, Step: 1, Offset: 1, Max: 1_000_000, Strict: true,
		Time: Time{Layout: "some", Node: 3, Ahead: DefaultAhead}}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return NewRecord(d, "t0")
}

// A term owns all from its first grant on, so that asking again leaves no gap and grants nothing twice; the next one
// begins above. No term adds to what is ahead already but the little that it needs.
func TestAdvance(t *testing.T) {
	r := timestampsOf(t)
	advance := func(s Span, token string, want Block) {
		t.Helper()
		b, err := r.Advance(s, token)
		if want.Token = token; err != nil || b != want || r.Check() != nil || r.Next != b.Hi+1 {
			t.Fatalf("%+v, %v; want %+v; %+v %v", b, err, want, r, r.Check())
		}
	}
	advance(Span{From: 5000, To: 8000, Need: 10, Tick: tick, Term: "a"}, "t1", Block{Lo: 5000, Hi: 8063})
	advance(Span{From: 5200, To: 8200, Need: 10, Tick: tick, Term: "a"}, "t2", Block{Lo: 5000, Hi: 8319})
	advance(Span{From: 5200, To: 8200, Need: 10, Tick: tick, Term: "a"}, "t3", Block{Lo: 5000, Hi: 8319})
	for i, at := uint64(0), uint64(8320); i < 20; i++ { // killed again and again
		term := string(rune('b' + i))
		advance(Span{From: 5300, To: 8300, Need: 10, Tick: tick, Term: term}, "k"+term,
			Block{Lo: at, Hi: (at + 9) | 127})
		at = r.Next
	}
}

// What is given back is free for the next term, and the one that gave it back has nothing any more.
func TestReturnOfTimestamps(t *testing.T) {
	r := timestampsOf(t)
	b, _ := r.Advance(Span{From: 5000, To: 8000, Need: 10, Tick: 0, Term: "a"}, "t1")
	if err := r.Return(Block{Lo: b.Lo, Hi: b.Hi, Token: "old"}, 5001, "t2"); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	if err := r.Return(b, 5001, "t2"); err != nil || r.Next != 5001 {
		t.Fatal(err, r)
	}
	again, err := r.Advance(Span{From: 4000, To: 7000, Need: 10, Term: "a"}, "t3")
	if err != nil || again.Lo != 5001 {
		t.Fatal(again, err)
	}
	if err := r.Raise(9000, "t4"); err != nil {
		t.Fatal(err)
	}
	if b, err := r.Advance(Span{From: 4000, To: 7000, Need: 10, Term: "a"}, "t5"); err != nil || b.Lo != 9000 {
		t.Fatal(b, err)
	}
	if _, err := r.Reserve(1, "t6"); !errors.Is(err, ErrOrder) {
		t.Fatal(err)
	}
	if b, err := r.Advance(Span{From: 999_000, To: 2_000_000, Need: 10, Term: "z"}, "t7"); err != nil || b.Hi != r.Max {
		t.Fatal(b, err)
	}
	if _, err := r.Advance(Span{From: 4000, To: 7000, Need: 10, Term: "y"}, "t8"); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	r.Retire("t9")
	if _, err := r.Advance(Span{From: 4000, To: 7000, Need: 10, Term: "x"}, "t10"); !errors.Is(err, ErrRetired) {
		t.Fatal(err)
	}
}

// A keptTime is a TimedIssuer.
type keptTime struct {
	Issuer
	short uint64
	known bool
}

func (k *keptTime) Left() (left, short uint64) { return 0, k.short }
func (k *keptTime) Span(need uint64) (s Span, known bool) {
	return Span{From: 1, To: 1, Need: need}, k.known
}
func (k *keptTime) Append(_, _ uint64) error { return nil }
func (k *keptTime) Refuse(error)             {}

// A name that nobody uses asks for nothing, nor does one that does not know the time. What a busy one needs beyond the
// clock begins small, grows while it is used up at once, and falls again.
func TestTheNeedOfTimestamps(t *testing.T) {
	r := timestampsOf(t)
	to := &keptTime{known: true}
	m := NewMachine(r, to, 0, slog.New(slog.DiscardHandler))
	now := time.Unix(1000, 0)
	if n := m.Need(now); n != 0 {
		t.Fatal(n)
	}
	to.short, to.known = 1, false
	if n := m.Need(now); n != 0 {
		t.Fatal(n)
	}
	to.known = true
	for i, want := range []uint64{100, 400, 1600, 1600, 400, 100, 100} {
		n := m.Need(now)
		if s, ok := m.Span(n); n != want || !ok || s.Need != want || s.Term == "" {
			t.Fatal(i, n, s, ok)
		}
		m.Answer(now, Block{Lo: 1, Hi: 10_000, Token: "t"}, nil)
		now = now.Add([]time.Duration{time.Millisecond, time.Millisecond, 100 * time.Millisecond, 2 * time.Second,
			2 * time.Second, 2 * time.Second, 0}[i])
	}
	other := NewMachine(r, to, 0, slog.New(slog.DiscardHandler))
	a, _ := m.Span(1)
	if b, _ := other.Span(1); a.Term == b.Term {
		t.Error("two terms of one name")
	}
}
