package latency

import (
	"sync/atomic"
	"time"
)

// A Track is how long the answers of one name took. It counts what a Sampler counts of them: those of a measured turn
// stand for those of the turns before it. Any goroutine may use it; the zero value is ready.
type Track struct {
	n       atomic.Uint64
	sum     atomic.Uint64 // ns
	slowest atomic.Int64  // ns
}

// Observe counts n answers that each took d.
func (t *Track) Observe(d time.Duration, n int) {
	d = min(max(d, 0), longest)
	t.n.Add(uint64(n))
	t.sum.Add(uint64(d) * uint64(n))
	for {
		before := t.slowest.Load()
		if int64(d) <= before || t.slowest.CompareAndSwap(before, int64(d)) {
			return
		}
	}
}

// Total returns how many answers there were since the start, about, and how long they took together.
func (t *Track) Total() (n uint64, took time.Duration) {
	return t.n.Load(), time.Duration(t.sum.Load())
}

// Slowest returns the longest time that was measured since the last ForgetSlowest.
func (t *Track) Slowest() time.Duration { return time.Duration(t.slowest.Load()) }

// ForgetSlowest returns Slowest and begins anew.
func (t *Track) ForgetSlowest() time.Duration { return time.Duration(t.slowest.Swap(0)) }

// maxNotes is how many names, or turns of the same ones, an Asked notes in one turn. It leaves out the rest.
const maxNotes = 64

// An Asked notes which names are asked for in a turn that is measured, and by a session that has waited. It belongs
// to the goroutine of a Sampler. The zero value notes nothing until a Sampler uses it.
type Asked struct {
	on      bool
	by      *Sampler
	notes   []note
	resumed int // so many notes there were when a session went on that has waited
}

// A note is a name that was asked for n times, after so many answers of the turn.
type note struct {
	of    *Track
	n     int
	after uint32
}

// Note notes that a name is asked for. It is inlined, and costs a comparison in turns that are not measured.
func (a *Asked) Note(t *Track) {
	if a.on {
		a.note(t)
	}
}

func (a *Asked) note(t *Track) {
	after := a.by.fresh
	if last := len(a.notes) - 1; last >= 0 && a.notes[last].of == t && a.notes[last].after == after {
		a.notes[last].n++
	} else if len(a.notes) < maxNotes {
		a.notes = append(a.notes, note{t, 1, after})
	}
}

// listen begins to note, or goes on.
func (a *Asked) listen(by *Sampler) {
	if a != nil {
		a.on, a.by, a.resumed = true, by, len(a.notes)
	}
}

// took says how long the answers of the notes took, from the one with a number on; each stands for all/of answers.
func (a *Asked) took(d time.Duration, from, all, of int) {
	if a == nil {
		return
	}
	sum, counted := 0, 0
	for _, n := range a.notes[from:] { // rounded so that their sum is right
		sum += n.n
		n.of.Observe(d, sum*all/of-counted)
		counted = sum * all / of
	}
	a.notes = a.notes[:from]
}

// drop forgets what was noted since the last answer of the turn.
func (a *Asked) drop(answers uint32) {
	if a == nil {
		return
	}
	for last := len(a.notes) - 1; last >= 0 && a.notes[last].after == answers; last-- {
		a.notes = a.notes[:last]
	}
}

// goOn notes on only if a turn is being measured.
func (a *Asked) goOn(measuring bool) {
	if a != nil {
		a.on = measuring
	}
}
