package counter_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestRecordsAndMachines plays scripts of one record, and of a Machine over it, see bench.
func TestRecordsAndMachines(t *testing.T) {
	for _, path := range []string{"testdata/records.script", "testdata/machines.script"} {
		script.Run(t, path, func(t *testing.T, play func(script.Do)) {
			b := &bench{Stage: countertest.NewStage(t), t: t, now: time.Unix(1000, 0)}
			calls := b.calls()
			play(func(words []string) string { return calls.Do(t, words, b.happened) })
		})
	}
}

// A bench is a Machine with its record and a clock, and the issuer that it fills.
type bench struct {
	*countertest.Stage
	*counter.Machine
	t    *testing.T
	def  counter.Definition
	r    counter.Record
	last counter.Block
	n    int // tokens
	now  time.Time
	wait time.Duration // until the Machine may ask again
	log  strings.Builder

	left, short, greedy, next, rest uint64
	late                            error
	knows, refuses                  bool
	term                            string
	told                            []string // by the Machine
}

func (b *bench) tell(format string, args ...any) {
	b.told = append(b.told, fmt.Sprintf(format, args...))
}

func (b *bench) Append(lo, hi uint64) error {
	if b.late == nil {
		b.left += hi - lo + 1 - b.greedy
	}
	return b.late
}
func (b *bench) Raise(v uint64)         { b.tell("raise %d", v) }
func (b *bench) Left() (uint64, uint64) { return b.left, b.short }
func (b *bench) Refuse(why error) {
	switch {
	case why != nil:
		b.tell("refuse: %v", why)
	case b.refuses:
		b.tell("refuse no more")
	}
	b.refuses = why != nil
}
func (b *bench) Seal() (uint64, uint64) {
	b.tell("seal")
	return b.next, b.rest
}
func (b *bench) Span(need uint64) (counter.Span, bool) {
	return counter.Span{From: 1, To: 1, Need: need}, b.knows
}

func (b *bench) token() string {
	b.n++
	return fmt.Sprint("t", b.n)
}

func (b *bench) calls() script.Calls {
	return script.Calls{
		// definition [start=5 ...]: its values, or which fields are wrong, and whether it is the same as the one before
		"definition": func(options ...string) string {
			return b.define(b.Definition(append([]string{"orders"}, options...)))
		},
		// record orders [start=5 ...] [spoilt] [daemon=7]: a record of it, and a Machine, which has that batch
		"record": b.record,
		"reserve": func(n uint64) string {
			return b.grant(func(token string) (counter.Block, error) { return b.r.Reserve(n, token) })
		},
		"advance": func(from, to, need, tick uint64, term string) string {
			s := counter.Span{From: from, To: to, Need: need, Tick: tick, Term: term}
			return b.grant(func(token string) (counter.Block, error) { return b.r.Advance(s, token) })
		},
		// return 7, return-of 7 1 19 t1: the newest block, or another one; tokens are t1, t2 and so on
		"return": func(next uint64) string { return b.changed(b.r.Return(b.last, next, b.token())) },
		"return-of": func(next, lo, hi uint64, token string) string {
			return b.changed(b.r.Return(counter.Block{Lo: lo, Hi: hi, Token: token}, next, b.token()))
		},
		"raise": func(atLeast uint64) string { return b.changed(b.r.Raise(atLeast, b.token())) },
		"retire": func() string {
			b.r.Retire(b.token())
			return b.changed(nil)
		},
		"next": func(next uint64) string {
			b.r.Next = next
			return b.changed(nil)
		},
		// need LEFT SHORT 1s: after so long: what the Machine needs, where so many values are left and clients wait for so
		// many. The record grants it. greedy 60: they take so many as soon as they are there
		"need": func(left, short uint64, after ...time.Duration) string {
			b.now = b.now.Add(append(after, 0)[0])
			return b.need(left, short, func(n uint64) (counter.Block, error) {
				if s, ok := b.Machine.Span(n); ok {
					return b.r.Advance(s, b.token())
				}
				return b.r.Reserve(n, b.token())
			})
		},
		// meet LEFT SHORT: as need, and the record is learnt before the answer comes
		"meet": func(left, short uint64) string {
			return b.need(left, short, func(n uint64) (counter.Block, error) {
				block, err := b.r.Reserve(n, b.token())
				b.Learn(b.r)
				return block, err
			})
		},
		"greedy": func(n uint64) { b.greedy = n },
		// fail LEFT TEXT|foreign|deposed|retired: clients wait, as soon as the Machine may ask again, and the store fails
		"fail": func(left uint64, text ...string) string {
			b.now = b.now.Add(b.wait)
			return b.need(left, 1, func(uint64) (counter.Block, error) {
				return counter.Block{}, cmp.Or(map[string]error{"foreign": counter.ErrForeign, "deposed": counter.ErrDeposed,
					"retired": fmt.Errorf("x: %w", counter.ErrRetired)}[text[0]], errors.New(strings.Join(text, " ")))
			})
		},
		// grants 20 50: the same, and the store grants that
		"grants": func(lo, hi uint64) string {
			b.now = b.now.Add(b.wait)
			return b.need(0, 1, func(uint64) (counter.Block, error) { return counter.Block{Lo: lo, Hi: hi}, nil })
		},
		// learn 50 [retired] [spoilt]: what the record says, with that floor
		"learn": func(floor uint64, options ...string) {
			b.Learn(counter.Record{Definition: b.r.Definition, Floor: floor, Next: b.r.Next,
				Retired: slices.Contains(options, "retired"), Fault: fault(options)})
		},
		// restart: another daemon's Machine; lasts: for how many days it does
		"restart": func() {
			b.Machine = counter.NewMachine(b.r, b, 0, slog.New(slog.NewTextHandler(&b.log, nil)))
		},
		"lasts": func() string { return fmt.Sprint(b.DaysLeft(b.now)) },
		// late TEXT: why the issuer does not take a block; knows-time true; seals NEXT REST
		"late":       func(text ...string) { b.late = errors.New(strings.Join(text, " ")) },
		"knows-time": func(knows bool) { b.knows, b.late = knows, nil },
		"seals":      func(next, rest uint64) { b.next, b.rest, b.late = next, rest, nil },
		// stop: what is given back
		"stop": func() string {
			block, next, ok := b.Stop()
			return fmt.Sprintf("%v: %d to %d", ok, next, block.Hi)
		},
	}
}

// happened is what the Machine has told and logged.
func (b *bench) happened() string {
	lines := b.told
	for line := range strings.Lines(script.Logged(b.log.String())) {
		lines = append(lines, line[2:])
	}
	b.told = nil
	b.log.Reset()
	return strings.Join(lines, "\n")
}

func fault(options []string) error {
	if slices.Contains(options, "spoilt") {
		return counter.ErrUnusable
	}
	return nil
}

func (b *bench) record(options ...string) {
	batch, _ := strings.CutPrefix(options[len(options)-1], "daemon=")
	n, _ := strconv.ParseUint(batch, 10, 64)
	b.r = counter.NewRecord(b.Definition(options), "t0")
	b.r.Fault = fault(options)
	b.left = 0
	b.Machine = counter.NewMachine(b.r, b, n, slog.New(slog.NewTextHandler(&b.log, nil)))
	s, ok := b.Machine.Span(1)
	if ok && s.Term == b.term {
		b.t.Error("two terms of one name")
	}
	b.term = s.Term
}

func (b *bench) define(d counter.Definition) string {
	was := b.def
	b.def = d
	var fields []string
	for _, p := range problem.Of(d.Check()) {
		fields = append(fields, p.Field)
	}
	if len(fields) > 0 {
		return "wrong: " + strings.Join(fields, " ")
	}
	return fmt.Sprintf("%d values, %d to %d, then %d; as before: %v", d.Count(d.First()), d.First(), d.Last(),
		d.Count(d.Last()+d.Step), d.Same(was) && was.Same(d))
}

// grant makes a grant of the record.
func (b *bench) grant(grant func(token string) (counter.Block, error)) string {
	block, err := grant(b.token())
	if err != nil {
		return b.changed(err)
	}
	b.last = block
	return fmt.Sprintf("%d to %d, ", block.Lo, block.Hi) + b.changed(nil)
}

// changed is what a change has made of the record.
func (b *bench) changed(err error) string {
	said := fmt.Sprintf("next %d, floor %d, %s", b.r.Next, b.r.Floor, b.r.Token)
	if wrong := b.r.Check(); wrong != nil {
		said += fmt.Sprintf(" (wrong: %v)", wrong)
	}
	if err != nil {
		said = countertest.Said(said, err) + fmt.Sprintf(" (certain: %v)", counter.Certain(err))
	}
	return said
}

// need asks a Machine what it needs, and gives it the store's answer.
func (b *bench) need(left, short uint64, store func(n uint64) (counter.Block, error)) string {
	b.left, b.short = left, short
	n := b.Need(b.now)
	if n == 0 {
		return "nothing"
	}
	if again := b.Need(b.now); again != 0 {
		b.t.Errorf("%d values are needed while a call is under way", again)
	}
	said := fmt.Sprint(n)
	if s, ok := b.Machine.Span(n); ok {
		if said += fmt.Sprintf(" of a span of %d", s.Need); s.Term == "" {
			said += " without a term"
		}
	}
	block, err := store(n)
	if b.wait = b.Answer(b.now, block, err); b.wait > 0 {
		if said += fmt.Sprintf(", and again after %v", b.wait); b.Need(b.now.Add(b.wait-1)) != 0 {
			b.t.Error("asked too early")
		}
	} else if err == nil && b.Block() != n {
		said += fmt.Sprintf(", a block of %d", b.Block())
	}
	b.short, b.greedy = 0, 0
	return said
}
