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

// TestRecordsAndMachines plays scripts of one record, and of a Machine over it:
//
//	definition [start=5 ...]     its values, or which fields are wrong, and whether it is the same as the one before
//	record orders [start=5 ...] [spoilt] [daemon=7]   a record of it, and a Machine, which has that batch
//	reserve 10, raise 50, retire, next 31
//	advance FROM TO NEED TICK TERM
//	return 7 [1 19 token]        the newest block, or another one; tokens are t1, t2 and so on
//	need LEFT SHORT 1s [GREEDY]  after so long: what the Machine needs, where so many values are left, clients wait for
//	                             so many, and take so many as soon as they are there. The record grants it
//	fail LEFT TEXT|foreign|deposed|retired   clients wait, as soon as the Machine may ask again, and the store fails
//	grants 20 50                 the same, and the store grants that
//	learn floor=50 [retired] [spoilt]     what the record says
//	issuer late TEXT, issuer knows the time on|off, issuer seals NEXT REST
//	stop                         what is given back
func TestRecordsAndMachines(t *testing.T) {
	for _, path := range []string{"testdata/records.script", "testdata/machines.script"} {
		script.Run(t, path, func(t *testing.T, play func(script.Do)) {
			play((&bench{Stage: countertest.NewStage(t), t: t, now: time.Unix(1000, 0)}).do)
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

func (b *bench) number(words []string, i int) uint64 {
	if i >= len(words) {
		return 0
	}
	return b.Number(words[i])
}

// do adds what the Machine has told and logged.
func (b *bench) do(words []string) string {
	lines := []string{b.command(words)}
	lines = append(lines, b.told...)
	for line := range strings.Lines(script.Logged(b.log.String())) {
		lines = append(lines, line[2:])
	}
	b.told = nil
	b.log.Reset()
	return strings.Join(lines, "\n")
}

func (b *bench) command(words []string) string {
	switch words[0] {
	case "definition":
		return b.define(b.Definition(append([]string{"orders"}, words[1:]...)))
	case "record":
		batch, _ := strings.CutPrefix(words[len(words)-1], "daemon=")
		n, _ := strconv.ParseUint(batch, 10, 64)
		b.r = counter.NewRecord(b.Definition(words[1:]), "t0")
		if slices.Contains(words, "spoilt") {
			b.r.Fault = counter.ErrUnusable
		}
		b.Machine = counter.NewMachine(b.r, b, n, slog.New(slog.NewTextHandler(&b.log, nil)))
		if s, ok := b.Machine.Span(1); ok && s.Term == b.term {
			b.t.Error("two terms of one name")
		} else {
			b.term = s.Term
		}
		return ""
	case "need", "fail", "grants":
		return b.need(words)
	case "learn":
		floor, _ := strings.CutPrefix(words[1], "floor=")
		r := counter.Record{Definition: b.r.Definition, Floor: b.number([]string{floor}, 0),
			Retired: slices.Contains(words, "retired")}
		if slices.Contains(words, "spoilt") {
			r.Fault = counter.ErrUnusable
		}
		b.Learn(r)
	case "issuer":
		switch b.late = nil; words[1] {
		case "late":
			b.late = errors.New(strings.Join(words[1:], " "))
		case "seals":
			b.next, b.rest = b.number(words, 2), b.number(words, 3)
		default:
			b.knows = words[len(words)-1] == "on"
		}
	case "stop":
		block, next, ok := b.Stop()
		return fmt.Sprintf("%v: %d to %d", ok, next, block.Hi)
	default:
		return b.change(words)
	}
	return ""
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

// change changes the record.
func (b *bench) change(words []string) string {
	said := ""
	var err error
	granted := func(block counter.Block, err2 error) {
		if err = err2; err == nil {
			b.last = block
			said = fmt.Sprintf("%d to %d, ", block.Lo, block.Hi)
		}
	}
	switch token := b.token(); words[0] {
	case "reserve":
		granted(b.r.Reserve(b.number(words, 1), token))
	case "advance":
		granted(b.r.Advance(counter.Span{From: b.number(words, 1), To: b.number(words, 2), Need: b.number(words, 3),
			Tick: b.number(words, 4), Term: words[5]}, token))
	case "return":
		block := b.last
		if len(words) > 2 {
			block = counter.Block{Lo: b.number(words, 2), Hi: b.number(words, 3), Token: words[4]}
		}
		err = b.r.Return(block, b.number(words, 1), token)
	case "raise":
		err = b.r.Raise(b.number(words, 1), token)
	case "retire":
		b.r.Retire(token)
	case "next":
		b.r.Next = b.number(words, 1)
	default:
		b.t.Fatalf("%q: what is that?", words)
	}
	said += fmt.Sprintf("next %d, floor %d, %s", b.r.Next, b.r.Floor, b.r.Token)
	if wrong := b.r.Check(); wrong != nil {
		said += fmt.Sprintf(" (wrong: %v)", wrong)
	}
	if err != nil {
		said = countertest.Said(said, err) + fmt.Sprintf(" (certain: %v)", counter.Certain(err))
	}
	return said
}

// need asks a Machine what it needs, and gives it an answer.
func (b *bench) need(words []string) string {
	var block counter.Block
	var err error
	switch words[0] {
	case "need":
		pause := b.Duration(append(words, "0s", "0s", "0s")[3])
		b.left, b.short, b.now, b.greedy = b.number(words, 1), b.number(words, 2), b.now.Add(pause), b.number(words, 4)
	case "fail":
		b.left, b.short, b.now = b.number(words, 1), 1, b.now.Add(b.wait)
	default:
		b.left, b.short, b.now = 0, 1, b.now.Add(b.wait)
	}
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
	switch words[0] {
	case "need":
		if s, ok := b.Machine.Span(n); ok {
			block, err = b.r.Advance(s, b.token())
		} else {
			block, err = b.r.Reserve(n, b.token())
		}
	case "grants":
		block = counter.Block{Lo: b.number(words, 1), Hi: b.number(words, 2)}
	default:
		err = cmp.Or(map[string]error{"foreign": counter.ErrForeign, "deposed": counter.ErrDeposed,
			"retired": fmt.Errorf("x: %w", counter.ErrRetired)}[words[2]], errors.New(strings.Join(words[2:], " ")))
	}
	if b.wait = b.Answer(b.now, block, err); b.wait > 0 {
		if said += fmt.Sprintf(", and again after %v", b.wait); b.Need(b.now.Add(b.wait-1)) != 0 {
			b.t.Error("asked too early")
		}
	} else if err == nil && b.Block() != n {
		said += fmt.Sprintf(", a block of %d", b.Block())
	}
	b.short = 0
	return said
}
