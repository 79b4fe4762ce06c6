package static

import (
	"slices"
	"time"
)

// This file is for test/explore, which runs every schedule of a small world. It changes nothing.

// Clone is a copy of a Store that goes on by itself, with the same Config, files and pages. No call and no
// write may be under way. It has seen no Version of the directory yet.
func (s *Store) Clone() *Store {
	c := &Store{c: s.c, workers: make(map[uint64]*worker, len(s.workers)), local: s.local}
	if s.shared != nil {
		c.shared = s.shared.clone(&c.c)
	}
	for id, w := range s.workers {
		c.workers[id] = w.clone(&c.c, c.shared)
	}
	return c
}

func (s *sharedMark) clone(c *Config) *sharedMark {
	n := newSharedMark(c, s.series)
	n.copies.Like(&s.copies)
	n.mark, n.generation = s.mark, s.generation
	return n
}

func (w *worker) clone(c *Config, shared *sharedMark) *worker {
	n := newWorker(c, w.id, shared)
	n.state = newStateFile(c.Disk, n.path, c.Log, n.hasLock, n.succeed)
	n.state.record = w.state.record
	n.state.Like(&w.state.Copies)
	n.claim, n.fresh, n.above, n.page, n.found, n.last = w.claim, w.fresh, w.above, w.page, w.found, w.last
	n.reserve, n.memory, n.retired, n.shares = w.reserve, w.memory, slices.Clone(w.retired), w.shares
	n.lock, n.file, n.guard, n.holder, n.held, n.granted = w.lock, w.file, w.guard, w.holder, w.held, w.granted
	n.using, n.lost, n.had, n.renew, n.closed = w.using, w.lost, w.had, w.renew, w.closed
	n.mark = w.mark
	return n
}

// A Visitor is shown what decides how a Store goes on. It may take times and names for equal that are not.
type Visitor interface {
	Number(int64)
	Time(int64)         // Unix ms
	Boot(time.Duration) // Clocks.Boot
	Name(string)        // of a boot, a run, a page or a file
	File(File)          // may be nil
}

// Visit shows a Visitor all that decides how the Store goes on, always in the same order. It leaves out the settings
// and generations, and takes readings of the guard that nothing was watched for as one.
func (s *Store) Visit(v Visitor) {
	for _, id := range s.c.Workers {
		s.workers[id].visit(v)
	}
	if s.shared != nil {
		s.shared.visit(v)
	}
}

func (s *sharedMark) visit(v Visitor) {
	failed := int64(0)
	if s.copies.Like(&s.copies) {
		failed = 1
	}
	if s.mark.pushing != nil && s.mark.pushing.err != nil {
		failed += 2
	}
	v.Number(failed)
	v.Name(s.series)
	v.Time(s.mark.highWater)
	v.File(s.copies.File())
}

func (w *worker) visit(v Visitor) {
	failed := w.state.Like(&w.state.Copies)
	flags := []bool{w.fresh, w.memory != nil, w.found != nil, w.held, w.lost, w.renew, w.closed, failed, w.granted != nil,
		w.mark.pushing != nil && w.mark.pushing.err != nil, w.shares}
	bits := int64(0)
	for i, f := range flags {
		if f {
			bits |= 1 << i
		}
	}
	v.Number(bits)
	v.Number(w.reserve)
	for _, t := range []int64{w.above, w.holder.Lo, w.holder.Hi, w.had, w.mark.highWater} {
		v.Time(t)
	}
	if w.found != nil {
		visitRecord(w.found, v)
	}
	visitRecord(&w.state.record, v)
	visitRun(&w.last, v)
	visitRun(&w.using, v)
	for _, f := range append([]File{w.lock, w.file, w.state.File()}, w.retired...) {
		v.File(f)
	}
	g := w.guard
	v.Number(g.trusted)
	if v.Number(g.stepped); g.stepped != 0 {
		v.Boot(time.Duration(g.since) * time.Millisecond)
	}
}

func visitRecord(r *record, v Visitor) {
	v.Time(r.HighWater)
	v.Number(r.Reserve)
	v.Name(r.Boot)
	v.Number(r.Offset)
	visitRun(&r.Run, v)
}

func visitRun(r *run, v Visitor) {
	v.Name(r.Nonce)
	v.Name(r.Lock)
	v.Name(r.Page)
	bits := int64(0)
	if r.Forgets {
		bits = 1
	}
	if r.Stopped {
		bits += 2
	}
	v.Number(bits)
}
