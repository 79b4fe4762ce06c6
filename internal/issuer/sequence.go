package issuer

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// SequenceConfig holds the settings of a Sequence.
type SequenceConfig struct {
	Definition counter.Definition
	// MaxWait is how long clients wait for a block from when the values ran out; then they are refused
	// until one comes.
	MaxWait time.Duration
	Status  func() counter.Status // what the keeper knows, for Figures; nil = nobody knows anything
	Refused *atomic.Uint64        // counts refusals, with those of others; nil = it need not
	Ring    func()                // asks for a block; see counter.Keeper.Ring. It must return at once
	Wake    func()                // tells all who got id.ErrWait to ask again. It must return at once
	Clock   Clock                 // of timestamps only
}

// A Sequence issues the values of one sequence to all event loops. It implements Reporter,
// id.Reserver and counter.Issuer: a counter.Keeper fills it. Any goroutine may call its methods.
type Sequence struct {
	c      SequenceConfig
	values numbers

	short atomic.Uint64         // values in a row that a client waits for; 0 = no client waits
	why   atomic.Pointer[error] // why there is no further block, or nil
	dry   drought               // of blocks
	last  atomic.Bool           // the values at hand are the sequence's last
	*tally
	term  bool   // it is that of one term of a Strict: if it is sealed, another one may follow
	above uint64 // each value must be larger: this one was there before that term

	mu     sync.Mutex
	issued uint64 // what Issued returned last
}

// A tally is what a sequence counts besides its values.
type tally struct {
	waits, refused atomic.Uint64
	waited         atomic.Int64   // ns: for blocks, and for answers of the leader
	all            *atomic.Uint64 // refusals of all sequences, or nil
}

// Refused implements Reporter.
func (t *tally) Refused() uint64 { return t.refused.Load() }

// refuses counts a refusal.
func (t *tally) refuses() {
	if t.refused.Add(1); t.all != nil {
		t.all.Add(1)
	}
}

// NewSequence makes a Sequence without values.
func NewSequence(c SequenceConfig) *Sequence {
	return &Sequence{c: c, values: numbersOf(c.Definition, c.Clock, c.Ring), tally: &tally{all: c.Refused}}
}

// Source implements Kind. All loops share one source.
func (s *Sequence) Source(int) id.Source { return s }

// Mint implements id.Source. Bulk of which a sequence has only a part left is refused whole: a part is of no use to who
// asked for all, and would be lost.
func (s *Sequence) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if bulk && s.ending() && s.values.Left() < uint64(n) {
		return id.Run{}, s.ended(n)
	}
	run, err := s.values.Take(when.Moment, n)
	if err != nil && err != generator.ErrAhead {
		return s.insist(when.Moment, n, false)
	}
	return run, err
}

// ending reports whether no block follows those at hand.
func (s *Sequence) ending() bool { return s.last.Load() || errors.Is(s.reason(), counter.ErrEnded) }

// Reserve implements id.Reserver.
func (s *Sequence) Reserve(when id.When, n int) (id.Run, error) {
	run, err := s.values.Reserve(when.Moment, n)
	if err != nil && err != generator.ErrAhead {
		return s.insist(when.Moment, n, true)
	}
	return run, err
}

// insist asks for a block and tries again, because one may have come before it asked. Otherwise it
// says whether to wait for one.
func (s *Sequence) insist(moment int64, n int, whole bool) (run id.Run, err error) {
	blocks := s.dry.supplies()
	if whole {
		s.want(uint64(n))
		run, err = s.values.Reserve(moment, n)
	} else {
		s.want(1)
		run, err = s.values.Take(moment, n)
	}
	switch {
	case err == nil, err == generator.ErrAhead:
		return run, err
	case err == generator.ErrSealed:
		return id.Run{}, s.sealed()
	}
	if why := s.reason(); errors.Is(why, counter.ErrEnded) {
		return id.Run{}, s.ended(n)
	} else if counter.Certain(why) {
		return id.Run{}, s.refuse("sequence %s: %v", s.c.Definition.Name, why)
	}
	wait, first := s.dry.lasts(blocks)
	if first {
		s.waits.Add(1)
	}
	if wait < s.c.MaxWait {
		return id.Run{}, id.ErrWait
	}
	return id.Run{}, s.refuse("%s", s.missing(wait))
}

// want makes the keeper reserve n values in a row, if it does not know yet.
func (s *Sequence) want(n uint64) {
	for {
		short := s.short.Load()
		if short >= n {
			return
		}
		if s.short.CompareAndSwap(short, n) {
			s.c.Ring()
			return
		}
	}
}

// A sequenceRefusal is the text that a client gets.
type sequenceRefusal string

func (r sequenceRefusal) Error() string { return string(r) }

// A finalRefusal is one that stays: the sequence has ended or is retired.
type finalRefusal struct{ sequenceRefusal }

// Final reports that to repeat the request is useless: Redis's clients must not be told to.
func (finalRefusal) Final() bool { return true }

func (t *tally) refuse(format string, args ...any) error {
	t.refuses()
	return refusal(format, args...)
}

func (t *tally) refuseForGood(format string, args ...any) error {
	t.refuses()
	return finalRefusal{refusal(format, args...)}
}

func refusal(format string, args ...any) sequenceRefusal {
	line := strings.NewReplacer("\r", "", "\n", "; ").Replace(fmt.Sprintf(format, args...))
	return sequenceRefusal(line)
}

// missing words a refusal because no block came for so long.
func (s *Sequence) missing(wait time.Duration) string {
	why := s.reason()
	if why == nil {
		why = errors.New("the counter store does not answer")
	}
	return fmt.Sprintf("sequence %s: no block for %.1fs: %v", s.c.Definition.Name, wait.Seconds(), why)
}

func (s *Sequence) ended(n int) error {
	d := s.c.Definition
	if left := s.values.Left(); left > 0 {
		return s.refuseForGood("sequence %s ends at %d: fewer than %d values are left", d.Name, d.Last(), n)
	}
	return s.refuseForGood("%s", hasEnded(d))
}

func hasEnded(d counter.Definition) sequenceRefusal {
	return refusal("sequence %s has ended at %d", d.Name, d.Last())
}

func isRetired(d counter.Definition) retirement {
	return retirement{refusal("sequence %s is retired", d.Name)}
}

func (s *Sequence) sealed() error {
	if errors.Is(s.reason(), counter.ErrRetired) {
		return s.refuseForGood("%s", isRetired(s.c.Definition))
	}
	if s.term {
		return id.ErrWait
	}
	return s.refuse("sequence %s is stopped", s.c.Definition.Name) // the daemon ends
}

func (s *Sequence) reason() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Ready implements Kind. It is an error if no block came for MaxWait, or if the record cannot be used and no
// value is at hand. A sequence that has ended or is retired is no error: no other daemon could serve it either.
func (s *Sequence) Ready(int64) error {
	wait, dry := s.dry.lasting()
	why := s.reason()
	unusable := errors.Is(why, counter.ErrDamaged) || errors.Is(why, counter.ErrUnusable)
	if (unusable || errors.Is(why, counter.ErrForeign)) && s.values.Left() == 0 {
		return refusal("sequence %s: %v", s.c.Definition.Name, why)
	}
	if !dry || wait < s.c.MaxWait || errors.Is(why, counter.ErrEnded) || errors.Is(why, counter.ErrRetired) {
		return nil
	}
	return refusal("%s", s.missing(wait))
}

// Lack returns why there is no value at hand, and for how long; nil = nobody has found none.
func (s *Sequence) Lack() error {
	if wait, dry := s.dry.lasting(); dry {
		return refusal("%s", s.missing(wait))
	}
	return nil
}

// A retirement is what an operator wanted.
type retirement struct{ sequenceRefusal }

func (retirement) Unwrap() error { return counter.ErrRetired }

// Over returns why the sequence issues nothing any more, for good: it has ended, or an operator retired it. Ready
// returns nil then, because no daemon could do better.
func (s *Sequence) Over() error {
	switch why := s.reason(); {
	case errors.Is(why, counter.ErrRetired):
		return isRetired(s.c.Definition)
	case errors.Is(why, counter.ErrEnded) && s.values.Left() == 0:
		return hasEnded(s.c.Definition)
	}
	return nil
}

// Append implements counter.Issuer.
func (s *Sequence) Append(lo, hi uint64) error {
	if first := s.values.Value(lo); first <= s.above {
		return setBack{first, s.above}
	}
	if err := s.values.Append(lo, hi); err != nil {
		return err
	}
	if wait, dry := s.dry.lasting(); dry {
		s.waited.Add(int64(wait))
	}
	s.last.Store(hi == s.c.Definition.Last())
	s.dry.supplied()
	s.c.Wake()
	return nil
}

// Raise implements counter.Issuer.
func (s *Sequence) Raise(atLeast uint64) { s.values.Raise(atLeast) }

// Refuse implements counter.Issuer.
func (s *Sequence) Refuse(why error) {
	if p, ok := s.values.(*generator.Positions); ok {
		p.Away(why != nil && !counter.Certain(why))
	}
	if why == nil {
		s.why.Store(nil)
		return
	}
	s.why.Store(&why)
	if counter.Certain(why) { // to wait is useless
		s.c.Wake()
	}
}

// Left implements counter.Issuer.
func (s *Sequence) Left() (left, short uint64) {
	short = s.short.Load()
	if short > 0 && s.values.Has(short) && s.short.CompareAndSwap(short, 0) {
		short = 0
	}
	if short == 0 && s.values.Low() {
		short = 1
	}
	return s.values.Left(), short
}

// Span implements counter.TimedIssuer.
func (s *Sequence) Span(need uint64) (span counter.Span, ok bool) {
	p, ok := s.values.(*generator.Positions)
	if !ok {
		return span, false
	}
	span.Need = need
	span.From, span.To, span.Tick, ok = p.Span(need)
	return span, ok
}

// Seal implements counter.Issuer.
func (s *Sequence) Seal() (next, rest uint64) {
	next, rest = s.values.Seal()
	s.c.Wake()
	return next, rest
}

// Issued implements Reporter.
func (s *Sequence) Issued() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued = max(s.issued, s.values.Issued())
	return s.issued
}

// farAway is what a sequence reports that lasts longer, or whose rate is not known, in days.
const farAway = 1e6

// Figures implements Reporter.
func (s *Sequence) Figures(emit func(figure.Figure)) Condition {
	c := Condition{Order: "free"}
	if s.c.Definition.Strict {
		c.Order = "strict"
	}
	s.figures(emit, &c, s.values.Last(), s.values.Left(), s.c.Status)
	return c
}

// figures emits what free and strict sequences have, and notes it in c. status is nil where this daemon does not know
// what is left: that it is nothing must not be told.
func (t *tally) figures(emit func(figure.Figure), c *Condition, last, atHand uint64, status func() counter.Status) {
	c.Last = int64(last)
	gauge := func(name, metric string, v any, help, worry string) {
		emit(figure.Figure{Stat: name, Metric: metric, Value: v, Help: help, Worry: worry})
	}
	gauge("order", "", c.Order, "", "")
	gauge(lastStat, "generator_last", c.Last,
		"Largest value that was issued or passed over, as far as this daemon knows.", "")
	gauge("at_hand", "generator_at_hand", int64(atHand), "Values that can be issued without another block.", "")
	block := uint64(0)
	if status != nil {
		k := status()
		days := min(k.DaysLeft, farAway)
		c.Left, c.DaysLeft, block = int64(k.Left), max(days, 1./(24*60*60)), k.Block
		gauge(leftStat, "generator_left", c.Left,
			"Values not yet granted to any daemon, where this one knows.", "")
		gauge("days_left", "", days, "", "")
		gauge("", "generator_time_left_seconds", days*(24*time.Hour).Seconds(),
			"Time until the sequence ends at the rate of the last hour, at most a million days.",
			"less than a month: the `max` of the sequence is near")
	}
	gauge("block", "generator_block", int64(block), "Values in the newest block.", "")
	emit(figure.Figure{
		Stat: "waits", Metric: "generator_waits_total", Value: t.waits.Load(), Count: true,
		Help: "How often the values ran out before the next block came.",
		Worry: "grows by more than five in ten minutes, and clients waited half a second: the disk of the state " +
			"directory, or the counter store, is slow",
	})
	emit(figure.Figure{
		Stat: "waited_ms", Metric: "generator_waited_seconds_total", Value: time.Duration(t.waited.Load()), Count: true,
		Help: "Time that clients waited for blocks, and that calls to the leader took.",
	})
	emit(Refusals(t.refused.Load()))
}

// Refusals is the figure of the requests for a name that were refused.
func Refusals(n uint64) figure.Figure {
	return figure.Figure{
		Stat: "refusals", Metric: "generator_refusals_total", Value: n, Count: true,
		Help:  "Requests that were refused.",
		Worry: "grows: clients got errors",
	}
}
