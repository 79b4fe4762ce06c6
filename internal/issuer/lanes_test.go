package issuer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A laneBed is an Issuer whose lanes and clock are a script's. Moments are durations since the start, or "ever".
type laneBed struct {
	*Issuer
	catalog   *Catalog
	t         *testing.T
	began     time.Time
	moved     time.Duration // by how much the clock was set
	stopped   time.Duration // for which the process is going to stop after its next look at the clock
	turn      int64
	sources   map[string]id.Source
	meanwhile func() // what other loops do while one sleeps
	bell      bells
	beside    []string
	refused   [NumReasons]uint64
	places    []Place // that an Issuer has left
}

var laneLayouts = map[string]generator.Layout{
	"1ms": ticksOf(1), "10ms": ticksOf(10), "1s": ticksOf(1000),
	"old":      {Epoch: start - 1<<20, Unit: 1, TimeBits: 10, WorkerBits: 10, SequenceBits: 12},
	"roomless": {Epoch: start - 100, Unit: 1, TimeBits: 9, WorkerBits: 30, SequenceBits: 25},
}

// open makes the Issuer: "alone" if nobody can be told to ask again.
func (b *laneBed) open(lanes int, runAhead time.Duration, layout string, alone ...string) {
	l, ok := laneLayouts[layout]
	if !ok {
		l, _ = generator.ParseLayout(layout)
	}
	c := Config{Lanes: lanes, RunAhead: runAhead, Layout: l, Now: b.now, Sleep: b.sleep}
	if len(alone) == 0 {
		c.Wake = func() {
			b.bell.woken.Add(1)
			b.catalog.Wake()
		}
	}
	b.Issuer, b.sources = New(c), map[string]id.Source{}
	b.catalog = NewCatalog(b.now, b.Issuer, false)
}

func (b *laneBed) now() int64 {
	now := start + (time.Since(b.began) + b.moved).Milliseconds()
	if b.stopped > 0 {
		b.moved, b.stopped = b.moved+b.stopped, 0
	}
	return now
}

func (b *laneBed) sleep(d time.Duration) {
	time.Sleep(d)
	if b.beside = append(b.beside, "- slept "+d.String()); b.meanwhile != nil {
		b.meanwhile()
	}
}

func (b *laneBed) at(moment string) int64 {
	if moment == "ever" {
		return math.MaxInt64
	}
	d, err := time.ParseDuration(moment)
	if err != nil {
		b.t.Error(err)
	}
	return start + d.Milliseconds()
}

func since(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return (time.Duration(ms-start) * time.Millisecond).String()
}

// kind is that of a layout or a text; numbers are the loops that ask for ids of the lanes.
func (b *laneBed) kind(name string) (Kind, error) {
	if strings.Trim(name, "0123456789") == "" {
		return b.Issuer, nil
	}
	if _, err := generator.ParseLayout(name); err == nil {
		return b.Kind(kinds.Definition{Kind: kinds.Snowflake, Layout: name})
	}
	return b.Kind(kinds.Definition{Kind: name})
}

func (b *laneBed) source(name string) id.Source {
	if b.sources[name] == nil {
		loop := 0
		fmt.Sscan(name, &loop)
		k, err := b.kind(name)
		b.sources[name] = mustKind(b.t, k, err).Source(loop)
	}
	return b.sources[name]
}

// mint asks for ids, in "bulk", or "late" in the turn that began at the last "turn".
func (b *laneBed) mint(name string, n int, how ...string) (string, error) {
	now := b.turn
	if !slices.Contains(how, "late") {
		now = b.now()
	}
	r, err := b.source(name).Mint(id.At(now), n, slices.Contains(how, "bulk"))
	if err == id.ErrWait {
		return "wait", nil
	} else if err != nil {
		return "", err
	}
	var p generator.Parts
	switch s := b.source(name).(type) {
	case *textSource:
		p = s.kind.layout.Decompose(r.High, r.First)
	case *otherSource:
		p = s.kind.layout.Decompose(r.First)
	default:
		p = b.c.Layout.Decompose(r.First)
	}
	return fmt.Sprintf("%d of worker id %d, %s and %d on", r.N, p.Worker, since(p.Time.UnixMilli()), p.Sequence), nil
}

// hog takes all ids that bulk gets, or if it is not bulk, all that there are.
func (b *laneBed) hog(name string, bulk bool) (ids int) {
	for {
		run, ok := b.source(name).(taker).take(b.now(), 100, bulk)
		if !ok {
			return ids
		}
		ids += run.N
	}
}

// besides says what a step led to.
func (b *laneBed) besides() string {
	said := append(b.beside, b.bell.said()...)
	b.beside = nil
	for r := range NumReasons {
		if n := b.Refused(r); n != b.refused[r] {
			said = append(said, fmt.Sprintf("- %d refused: %s", n-b.refused[r], r))
			b.refused[r] = n
		}
	}
	return strings.Join(said, "\n")
}

// TestLanes: testdata/lanes.txt has what clients get of lanes. "mint 1 5" asks in loop 1 for five ids, "mint uuid7 1"
// in loop 0 for a UUID.
func TestLanes(t *testing.T) {
	steps.Run(t, "testdata/lanes.txt", func(t *testing.T) (calls steps.Calls) {
		b := &laneBed{t: t, began: time.Now()}
		calls = steps.Calls{
			"":       func() string { return b.besides() },
			"issuer": b.open,
			"publish": func(lane int, worker uint64, lo, hi string) error {
				return b.Publish(lane, worker, b.at(lo), b.at(hi))
			},
			"extend":            func(lane int, lo, hi string) error { return b.Extend(lane, b.at(lo), b.at(hi)) },
			"seal":              func(lane int) string { return since(b.Seal(lane)) },
			"position":          func() string { return since(b.Position()) },
			"sleep":             time.Sleep,
			"clock":             func(d time.Duration) { b.moved += d },
			"stop-after-a-look": func(d time.Duration) { b.stopped = d },
			"turn":              func() { b.turn = b.now() },
			"mint":              b.mint,
			"keep-minting": func(d time.Duration, name string, n int) string {
				return keep(d, func() (string, error) { return b.mint(name, n) })
			},
			// as HTTP and gRPC do, which have no session that could wait
			"batch": func(n int) (string, error) {
				asked := time.Now()
				_, err := b.catalog.Batch(t.Context(), nil, n)
				return "after " + time.Since(asked).String(), err
			},
			"later":  func(d time.Duration, call ...string) { time.AfterFunc(d, func() { calls.Do(t, call) }) },
			"hog":    func(name string) int { return b.hog(name, true) },
			"use-up": func(name string) int { return b.hog(name, false) },
			"others": func(name string, bulk bool) { b.meanwhile = func() { b.hog(name, bulk) } },
			// all ids of a tick that lies ahead
			"take": func(lane int, ahead time.Duration) error {
				at := b.now() + ahead.Milliseconds()
				_, err := b.Generator(lane).Take(at, at, perTick)
				return err
			},
			"late": func() bool { return b.Late() },
			"kind": func(name string) error {
				_, err := b.kind(name)
				return err
			},
			"leave": func() (said string) {
				b.places = b.Places()
				for _, p := range b.places {
					said += fmt.Sprintf("worker id %d, after %s\n", p.Worker, since(p.After))
				}
				return said
			},
			"carry": func(of ...string) { // as they are, or as those of another layout
				for _, layout := range of {
					l, _ := generator.ParseLayout(layout)
					b.places[0].Layout = l.Fingerprint()
				}
				b.Carry(b.places)
			},
			"ready": func(name string) (string, error) {
				k, err := b.kind(name)
				return isReady(mustKind(b.t, k, err), b.now())
			},
			"times": func(n int, call ...string) (said string) {
				for i := range n {
					if now := calls.Do(t, call); i == 0 || now == said {
						said = now
					} else {
						return fmt.Sprintf("%s%d times, then\n%s", said, i, now)
					}
				}
				return said
			},
		}
		return calls
	})
}
