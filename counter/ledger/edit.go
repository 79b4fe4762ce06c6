package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

const (
	retryPause = 100 * time.Millisecond // before a store that did not answer is asked again
	mostPause  = 32 * time.Millisecond  // before a record is read again that others write: not in step with them
)

// A job is a change of one record, and how far it is.
type job struct {
	name string
	// change makes the entry to write of the one that was found; nil = nothing. It is written with an error too,
	// which is then the job's.
	change   func(j *job, token string) (Entry, error)
	done     func(m *memory) // called after the write; nil = nothing to do
	patient  bool            // to be tried until it is known whether it was written
	announce bool            // all daemons are to be told
	gap      bool            // if the write is lost, that is a gap and no more
	revive   bool            // change gets a record that is damaged

	m      *memory
	found  Found
	read   bool     // found was read in this attempt; otherwise it is what this process wrote last
	lost   bool     // an attempt before this one may have written
	next   Entry    // to write in place of found
	failed error    // the job's, once next is written
	tokens []string // of writes that may have happened
	over   bool
	err    error // if it is over
}

func (j *job) end(err error) { j.over, j.err = true, err }

// left returns the jobs that are not over.
func left(jobs []*job) (rest []*job) {
	for _, j := range jobs {
		if !j.over {
			rest = append(rest, j)
		}
	}
	return rest
}

// carryOut carries out jobs, in one Swap unless others write at the same time. All are patient, or none. The error
// is that of the first one.
func (l *Ledger) carryOut(ctx context.Context, jobs ...*job) error {
	inOrder := slices.SortedFunc(slices.Values(jobs), func(a, b *job) int { return strings.Compare(a.name, b.name) })
	for _, j := range inOrder { // so that no two calls wait for each other
		j.over, j.tokens = false, nil
		m, err := l.enter(ctx, j.name)
		if err != nil {
			j.end(err)
			continue
		}
		defer m.leave()
		j.m = m
	}
	for rest := left(jobs); len(rest) > 0; rest = left(rest) {
		err := l.locked(ctx, jobs[0].name, func() error { return l.attempt(ctx, rest) })
		if jobs[0].patient && l.Patient && errors.Is(err, counter.ErrUnavailable) && wait(ctx, retryPause) {
			continue
		}
		for _, j := range rest {
			if !j.over || len(rest) == 1 && j.err == nil { // or the lock could not be let go
				j.end(err)
			}
		}
	}
	return jobs[0].err
}

// locked calls f while the lock of a Locker is held.
func (l *Ledger) locked(ctx context.Context, name string, f func() error) error {
	locker, ok := l.d.(Locker)
	if !ok {
		return f()
	}
	unlock, err := locker.Lock(ctx, name)
	if errors.Is(err, counter.ErrUnknown) {
		return l.missing(name)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(), unlock())
}

// wait returns false if ctx ended meanwhile.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt reads and writes until no other daemon has written in between, and all jobs are over. What the last write
// of the same term has left is not read again.
func (l *Ledger) attempt(ctx context.Context, jobs []*job) error {
	var unread []*job
	for _, j := range jobs {
		j.found, j.read, j.lost = j.m.wrote, false, len(j.tokens) > 0
		if j.m.within == nil || j.m.within != l.fence {
			unread = append(unread, j)
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, mostPause) {
		if err := l.read(ctx, unread); err != nil {
			return err
		}
		unread = nil
		for _, j := range left(jobs) {
			if !l.decide(j) {
				unread = append(unread, j)
			}
		}
		if jobs = left(jobs); len(jobs) == 0 || len(unread) > 0 {
			if len(jobs) == 0 {
				return nil
			}
			continue
		}
		now, err := l.write(ctx, jobs)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrAgain):
			return err
		case now != nil:
			understand(jobs, now)
		case wait(ctx, rand.N(pause)):
			unread = jobs
		default:
			return l.d.NoAnswer(jobs[0].name, fmt.Errorf("%w: %w", err, ctx.Err()))
		}
	}
}

// read reads the records of jobs.
func (l *Ledger) read(ctx context.Context, jobs []*job) error {
	if len(jobs) == 0 {
		return nil
	}
	var names []string
	for _, j := range jobs {
		names = append(names, j.name)
	}
	found, err := l.d.Load(ctx, names)
	if err == nil {
		understand(jobs, found)
	}
	return err
}

// understand takes what was found. A job whose record cannot be understood is over.
func understand(jobs []*job, found []Found) {
	for i, j := range jobs {
		j.found, j.read = found[i], true
		err := cmp.Or(j.found.Closed, j.found.Fault)
		if err != nil && !(j.revive && errors.Is(err, counter.ErrDamaged)) {
			j.end(err)
		}
	}
}

// decide sets what to write, or ends the job. It returns false if the record must be read first.
func (l *Ledger) decide(j *job) bool {
	if e := j.found.Entry; e != nil && slices.Contains(j.tokens, e.Plain().Token) {
		l.finish(j) // it was written, and the answer was lost
		return true
	}
	next, err := j.change(j, l.token())
	switch {
	case err != nil && !j.read: // an operator may have changed it
		return false
	case j.lost && errors.Is(err, counter.ErrStale): // others may have written after it
		j.end(fmt.Errorf("%s: %v", l.words(l.Unanswered, j.name, &counter.Record{}, 0, 0), err))
	case next == nil:
		j.end(err)
	default:
		j.next, j.failed = next, err
	}
	return true
}

// finish ends a job whose record is written.
func (l *Ledger) finish(j *job) {
	if j.end(j.failed); j.err == nil && j.done != nil {
		l.update(j.m, j.done)
	}
}

// write puts entries in place of those that were found, all of them or none.
func (l *Ledger) write(ctx context.Context, jobs []*job) (now []Found, err error) {
	if err := ctx.Err(); err != nil { // the store took so long that a grant would be a gap
		return nil, l.d.NoAnswer(jobs[0].name, err)
	}
	var writes []Write
	for _, j := range jobs {
		j.tokens = append(j.tokens, j.next.Plain().Token)
		writes = append(writes, Write{j.found, j.next, j.announce, j.gap, j.failed})
	}
	now, err = l.d.Swap(ctx, l.fence, writes)
	if err != nil {
		return now, err
	}
	for i, j := range jobs {
		j.found.Entry, j.found.Fault, j.found.Foreign = j.next, nil, ""
		if now != nil {
			j.found = now[i]
		}
		j.m.wrote, j.m.within = j.found, l.fence
		l.finish(j)
	}
	return nil, nil
}
