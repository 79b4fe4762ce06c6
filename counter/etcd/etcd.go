package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// A Store keeps sequences in etcd. It implements counter.Store and counter.Admin.
type Store struct {
	link link
	log  *slog.Logger

	mu        sync.Mutex
	sequences map[string]*sequence // that this process has asked for
	cluster   string               // that answered first; empty = none yet
	noted     counter.Note         // under the key of me
	me        string

	groupsFixed atomic.Bool // the number of groups was read
	// tells the Watch that is under way that somebody else may lead
	hint atomic.Pointer[func(map[int]leader.Leader)]
}

var (
	_ counter.Store     = (*Store)(nil)
	_ counter.Collector = (*Store)(nil)
	_ counter.Admin     = (*Store)(nil)
)

// Open makes a Store. It does not connect; the error is that of Config.Validate.
func Open(c Config) (*Store, error) {
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		link:      link{etcdlink.NewLink(etcdlink.TargetOf(t), c.Timeout)},
		log:       c.Log,
		sequences: map[string]*sequence{},
		me:        rand.Text(),
	}, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.signOff()
	return s.link.Close()
}

// retryPause is how long a call waits before it asks an etcd again that did not answer.
const retryPause = 100 * time.Millisecond

// An edit is a change of a record.
type edit struct {
	// change gets the record as it was found, which may be none, and a token. It returns what to write;
	// nil = nothing. Its error is returned as it is, and nothing was written.
	change   func(q *sequence, found state, token string) (*record, error)
	done     func(q *sequence) // called after the write; nil = nothing to do
	patient  bool              // to be tried until it is known whether it was written
	announce bool              // all daemons are to be told
	revive   bool              // change gets a record that is damaged as none, with its revision
	fence    *within           // the term in which to write; nil = none
}

// A job is one edit, and how far it is.
type job struct {
	edit
	name   string
	q      *sequence // nil = not entered
	found  state
	read   bool     // found was read in this attempt; otherwise it is what this process wrote last
	lost   bool     // an attempt before this one may have written
	next   *record  // to write in place of found
	tokens []string // of writes that may have happened
	over   bool
	err    error // if it is over
}

func (j *job) end(err error) {
	j.over, j.err = true, err
	if err == nil && j.done != nil {
		j.done(j.q)
	}
}

// left returns the jobs that are not over.
func left(jobs []*job) []*job {
	return slices.Collect(func(yield func(*job) bool) {
		for _, j := range jobs {
			if !j.over && !yield(j) {
				return
			}
		}
	})
}

// edit changes the record of a sequence. After counter.ErrUnavailable the write may have happened or
// not.
func (s *Store) edit(ctx context.Context, name string, e edit) error {
	j := &job{edit: e, name: name}
	s.editAll(ctx, []*job{j})
	return j.err
}

// editAll changes the records of several sequences, in one transaction unless others write at the same time. All
// edits are patient, or none, and have the same fence.
func (s *Store) editAll(ctx context.Context, jobs []*job) {
	inOrder := slices.SortedFunc(slices.Values(left(jobs)), func(a, b *job) int { return strings.Compare(a.name, b.name) })
	for _, j := range inOrder { // so that no two calls wait for each other
		q, err := s.enter(ctx, j.name)
		if err != nil {
			j.end(err)
			continue
		}
		defer q.leave()
		j.q = q
	}
	for {
		err := s.attempt(ctx, left(jobs))
		if err == nil {
			return
		}
		if jobs[0].patient && errors.Is(err, counter.ErrUnavailable) && pause(ctx) {
			continue
		}
		for _, j := range left(jobs) {
			j.end(err)
		}
		return
	}
}

// pause waits before another attempt. It returns false if ctx ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(retryPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt reads and writes until nobody else has written in between, and all jobs are over. What the last write
// of the same term has left is not read again.
func (s *Store) attempt(ctx context.Context, jobs []*job) error {
	var unread []*job
	for _, j := range jobs {
		j.found, j.read, j.lost = j.q.wrote, false, len(j.tokens) > 0
		if j.q.within == nil || j.q.within != j.fence {
			unread = append(unread, j)
		}
	}
	for {
		if err := s.read(ctx, unread); err != nil {
			return err
		}
		unread = nil
		for _, j := range left(jobs) {
			if !j.decide() {
				unread = append(unread, j)
			}
		}
		if jobs = left(jobs); len(jobs) == 0 {
			return nil
		}
		if len(unread) == 0 {
			if err := s.write(ctx, jobs); err != nil {
				return err
			}
		}
	}
}

// decide sets what to write, or ends the job. It returns false if the record must be read first.
func (j *job) decide() bool {
	if j.found.record != nil && slices.Contains(j.tokens, j.found.Token) {
		j.end(nil) // it was written, and the answer was lost
		return true
	}
	r, err := j.change(j.q, j.found, rand.Text())
	switch {
	case err != nil && !j.read: // an operator may have changed it
		return false
	case j.lost && errors.Is(err, counter.ErrStale): // others may have written after it
		j.end(fmt.Errorf("%s: an answer of etcd was lost, and it may have been carried out: %v", j.q.key, err))
	case err != nil || r == nil:
		j.end(err)
	default:
		r.Key, r.Cluster = j.q.key, j.found.cluster
		j.next = r
	}
	return true
}

// read reads the records of sequences. A job whose record cannot be understood is over.
func (s *Store) read(ctx context.Context, jobs []*job) error {
	var got etcdlink.Answer
	var err error
	switch len(jobs) {
	case 0:
		return nil
	case 1:
		got, err = s.link.get(ctx, jobs[0].q.key)
	default:
		var ops []etcdlink.Op
		for _, j := range jobs {
			ops = append(ops, etcdlink.Get(j.q.key))
		}
		got, err = s.link.commit(ctx, jobs[0].q.key, nil, ops, nil)
	}
	if err == nil {
		s.understand(jobs, got)
	}
	return err
}

// understand takes an answer that has a record for each of some jobs.
func (s *Store) understand(jobs []*job, got etcdlink.Answer) {
	for i, j := range jobs {
		var err error
		j.found, err = s.stateOf(j.q.key, etcdlink.Answer{Cluster: got.Cluster, Found: got.Found[i : i+1]})
		if j.read = true; err != nil && !(j.revive && errors.Is(err, counter.ErrDamaged)) {
			j.end(err)
		}
	}
}

// write puts records in place of those that were found, all of them or none. If they were written, the jobs are
// over; otherwise they have what is there instead.
func (s *Store) write(ctx context.Context, jobs []*job) error {
	var compare []etcdlink.Cmp
	var then, otherwise []etcdlink.Op
	for _, j := range jobs {
		// The text too: among members of two clusters a revision says little.
		compare = append(compare, etcdlink.RevisionIs(j.q.key, j.found.revision))
		if j.found.revision != 0 {
			compare = append(compare, etcdlink.TextIs(j.q.key, j.found.text))
		}
		then = append(then, etcdlink.Put(j.q.key, string(j.next.encode())))
		if j.announce {
			then = append(then, etcdlink.Put(s.changesKey(), j.next.Token))
		}
		otherwise = append(otherwise, etcdlink.Get(j.q.key))
		j.tokens = append(j.tokens, j.next.Token)
	}
	fence := jobs[0].fence
	if fence != nil {
		compare = append(compare, fence.compare())
		otherwise = append(otherwise, fence.read())
	}
	answer, err := s.link.commit(ctx, jobs[0].q.key, compare, then, otherwise)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if id := answer.Cluster; id != j.found.cluster {
			return fmt.Errorf("%w: %s: the hosts of the URL belong to two clusters, %s and %s",
				counter.ErrForeign, j.q.key, j.found.cluster, id)
		}
	}
	if answer.Done {
		for _, j := range jobs {
			text := string(j.next.encode())
			j.q.wrote, j.q.within = state{j.next, text, answer.History.Revision, j.found.cluster}, fence
			j.end(nil)
		}
		return nil
	}
	if fence != nil {
		if err := fence.judge(answer.Found[len(jobs)].Pairs); err != nil {
			return err
		}
	}
	s.understand(jobs, answer)
	return nil
}

// Define implements counter.Store. Like Reserve it gives up after one attempt.
func (s *Store) Define(ctx context.Context, d counter.Definition) (r counter.Record, err error) {
	if err := d.Check(); err != nil {
		return r, err
	}
	birth := rand.Text()
	err = s.edit(ctx, d.Name, edit{announce: true, change: func(q *sequence, found state, token string) (*record, error) {
		if found.record != nil {
			r = found.Record
			return nil, q.usable(found)
		}
		if q.birth != "" {
			return nil, q.missing()
		}
		if err := s.began(found.cluster); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", counter.ErrForeign, q.key, err)
		}
		r = counter.NewRecord(d, token)
		return &record{Record: r, Birth: birth}, nil
	}, done: func(q *sequence) {
		if q.birth == "" {
			q.birth = birth
		}
	}})
	return r, err
}

// Reserve implements counter.Store. It gives up after one attempt, so that clients learn the reason. It
// refuses order=strict with counter.ErrOrder: see Within.
func (s *Store) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	return s.reserve(ctx, name, n, nil)
}

func (s *Store) reserve(ctx context.Context, name string, n uint64, fence *within) (b counter.Block, err error) {
	err = s.edit(ctx, name, edit{fence: fence, change: func(q *sequence, found state, token string) (*record, error) {
		if err := q.usable(found); err != nil {
			return nil, err
		}
		if err := order(found, fence); err != nil {
			return nil, err
		}
		r := *found.record
		b, err = r.Reserve(n, token)
		return &r, err
	}, done: func(q *sequence) { q.granted = b.Hi }})
	if err != nil {
		return counter.Block{}, err
	}
	return b, nil
}

// Return implements counter.Store.
func (s *Store) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	return s.ReturnAll(ctx, []counter.Rest{{Name: name, Block: b, Next: next}})[0]
}

// ReturnAll implements counter.Collector.
func (s *Store) ReturnAll(ctx context.Context, rests []counter.Rest) []error {
	return s.giveBack(ctx, rests, nil)
}

func (s *Store) giveBack(ctx context.Context, rests []counter.Rest, fence *within) (errs []error) {
	var jobs []*job
	for _, rest := range rests {
		j := &job{name: rest.Name, edit: edit{patient: true, fence: fence}}
		j.change = func(q *sequence, found state, token string) (*record, error) {
			if err := q.usable(found); err != nil {
				return nil, err
			}
			if err := order(found, fence); err != nil {
				return nil, err
			}
			r := *found.record
			if err := r.Return(rest.Block, rest.Next, token); err != nil {
				return nil, err
			}
			q.granted = rest.Next - 1 // whether the write succeeds or not: the caller does not use them again
			return &r, nil
		}
		if fence != nil {
			if err := fence.check(rest.Name); err != nil {
				j.end(err)
			}
		}
		jobs = append(jobs, j)
	}
	s.editAll(ctx, jobs)
	for _, j := range jobs {
		errs = append(errs, j.err)
	}
	return errs
}

// Raise implements counter.Admin.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.operate(ctx, name, func(r *record, token string) error { return r.Raise(atLeast, token) })
}

// Revive implements counter.Admin.
func (s *Store) Revive(ctx context.Context, d counter.Definition, atLeast uint64) (r counter.Record, err error) {
	birth := rand.Text()
	change := func(q *sequence, found state, token string) (*record, error) {
		switch {
		case found.record != nil:
			return nil, counter.Whole(q.name)
		case found.revision == 0:
			return nil, q.missing()
		}
		var err error
		r, err = counter.Revived(d, atLeast, token)
		return &record{Record: r, Birth: birth}, err
	}
	err = s.edit(ctx, d.Name, edit{announce: true, revive: true, change: change})
	return r, err
}

// Retire implements counter.Admin.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.operate(ctx, name, func(r *record, token string) error {
		r.Retire(token)
		return nil
	})
}

// operate changes a record on behalf of an operator, also a foreign one.
func (s *Store) operate(ctx context.Context, name string,
	change func(r *record, token string) error) (after counter.Record, err error) {
	err = s.edit(ctx, name,
		edit{patient: true, announce: true, change: func(q *sequence, found state, token string) (*record, error) {
			if found.record == nil {
				return nil, q.missing()
			}
			r := *found.record
			err := change(&r, token)
			after = r.Record
			return &r, err
		}})
	if err != nil {
		return counter.Record{}, err
	}
	return after, nil
}
