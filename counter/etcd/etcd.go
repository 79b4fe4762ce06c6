package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

	groupsFixed atomic.Bool                                 // the number of groups was read
	hint        atomic.Pointer[func(map[int]leader.Leader)] // tells the Watch that is under way that somebody else may lead
}

var (
	_ counter.Store = (*Store)(nil)
	_ counter.Admin = (*Store)(nil)
	_ counter.Roll  = (*Store)(nil)
)

// Open makes a Store. It does not connect; the error is that of Config.Validate.
func Open(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	t, err := parse(c.URL)
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
		link:      link{etcdlink.NewLink(t.link(c.PasswordFile), c.Timeout)},
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
	fence    *within           // the term in which to write; nil = none
}

// edit changes the record of a sequence. After counter.ErrUnavailable the write may have happened or
// not.
func (s *Store) edit(ctx context.Context, name string, e edit) error {
	q, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer q.leave()
	var tokens []string // of writes that may have happened
	for {
		err := s.attempt(ctx, q, e, &tokens)
		if err == nil && e.done != nil {
			e.done(q)
		}
		if err == nil || !e.patient || !errors.Is(err, counter.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// attempt reads and writes until nobody else has written in between. What the last write of the same term
// has left is not read again.
func (s *Store) attempt(ctx context.Context, q *sequence, e edit, tokens *[]string) error {
	found, read := q.wrote, false
	if q.within == nil || q.within != e.fence {
		var err error
		if found, err = s.read(ctx, q); err != nil {
			return err
		}
		read = true
	}
	var err error
	lost := len(*tokens) > 0 // the answer to a write, perhaps
	for written := false; err == nil && !written; {
		if found.record != nil && slices.Contains(*tokens, found.Token) {
			return nil // it was written, and the answer was lost
		}
		token := rand.Text()
		r, changeErr := e.change(q, found, token)
		if changeErr != nil && !read { // an operator may have changed it
			found, err = s.read(ctx, q)
			read = true
			continue
		}
		if lost && errors.Is(changeErr, counter.ErrStale) { // others may have written after it
			return fmt.Errorf("%s: an answer of etcd was lost, and it may have been carried out: %v", q.key, changeErr)
		}
		if changeErr != nil || r == nil {
			return changeErr
		}
		r.Name, r.Key, r.Cluster = q.name, q.key, found.cluster
		*tokens = append(*tokens, token)
		found, written, err = s.write(ctx, q, found, r, e)
		read = true
	}
	return err
}

// read reads a sequence's record.
func (s *Store) read(ctx context.Context, q *sequence) (state, error) {
	got, err := s.link.get(ctx, q.key)
	if err != nil {
		return state{}, err
	}
	return s.stateOf(q.key, got)
}

// write puts a record in place of the one that was found, or returns what is there instead.
func (s *Store) write(ctx context.Context, q *sequence, found state, r *record, e edit) (now state, written bool, err error) {
	// The text too: among members of two clusters a revision says little.
	compare := []etcdlink.Cmp{etcdlink.RevisionIs(q.key, found.revision)}
	if found.record != nil {
		compare = append(compare, etcdlink.TextIs(q.key, found.text))
	}
	text := string(r.encode())
	then := []etcdlink.Op{etcdlink.Put(q.key, text)}
	if e.announce {
		then = append(then, etcdlink.Put(s.changesKey(), r.Token))
	}
	otherwise := []etcdlink.Op{etcdlink.Get(q.key)}
	if e.fence != nil {
		compare = append(compare, e.fence.compare())
		otherwise = append(otherwise, e.fence.read())
	}
	answer, err := s.link.commit(ctx, q.key, compare, then, otherwise)
	if err != nil {
		return state{}, false, err
	}
	if id := answer.Cluster; id != found.cluster {
		return state{}, false, fmt.Errorf("%w: %s: the hosts of the URL belong to two clusters, %s and %s", counter.ErrForeign, q.key, found.cluster, id)
	}
	if answer.Done {
		q.wrote, q.within = state{r, text, answer.History.Revision, found.cluster}, e.fence
		return state{}, true, nil
	}
	if e.fence != nil {
		if err := e.fence.judge(answer.Found[1].Pairs); err != nil {
			return state{}, false, err
		}
	}
	now, err = s.stateOf(q.key, answer)
	return now, false, err
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
		if first := s.firstCluster(); found.cluster != first {
			return nil, fmt.Errorf("%w: %s: this is cluster %s, and the daemon began with %s", counter.ErrForeign, q.key, found.cluster, first)
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
	return s.giveBack(ctx, name, b, next, nil)
}

func (s *Store) giveBack(ctx context.Context, name string, b counter.Block, next uint64, fence *within) error {
	return s.edit(ctx, name, edit{patient: true, fence: fence, change: func(q *sequence, found state, token string) (*record, error) {
		if err := q.usable(found); err != nil {
			return nil, err
		}
		if err := order(found, fence); err != nil {
			return nil, err
		}
		r := *found.record
		if err := r.Return(b, next, token); err != nil {
			return nil, err
		}
		q.granted = next - 1 // whether the write succeeds or not: the caller does not use them again
		return &r, nil
	}})
}

// Raise implements counter.Admin.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.operate(ctx, name, func(r *record, token string) error { return r.Raise(atLeast, token) })
}

// Retire implements counter.Admin.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.operate(ctx, name, func(r *record, token string) error { r.Retire(token); return nil })
}

// operate changes a record on behalf of an operator, also a foreign one.
func (s *Store) operate(ctx context.Context, name string, change func(r *record, token string) error) (after counter.Record, err error) {
	err = s.edit(ctx, name, edit{patient: true, announce: true, change: func(q *sequence, found state, token string) (*record, error) {
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
