package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// A sequence is what a Store remembers of one. Its fields but the first are for the goroutine that has
// put a token into busy: calls for one sequence come one after another, so that what one of them has
// read is not older than what the one before was granted.
type sequence struct {
	busy    chan struct{}
	name    string
	key     string
	birth   string  // of the record that was used; empty = none yet
	granted uint64  // the largest value that this process was granted and has not given back
	wrote   state   // what the last write has left there,
	within  *within // if that was in a term: mostly nobody else writes until it ends. nil = it was not, or has failed
}

func (s *Store) keyOf(name string) string { return s.link.Root + "seq/" + name }
func (s *Store) changesKey() string       { return s.link.Root + "changes" }

// enter waits for the sequence until ctx ends.
func (s *Store) enter(ctx context.Context, name string) (*sequence, error) {
	if name == "" || len(name) > 64 {
		return nil, fmt.Errorf("%w: %q", counter.ErrUnknown, name)
	}
	s.mu.Lock()
	q := s.sequences[name]
	if q == nil {
		q = &sequence{busy: make(chan struct{}, 1), name: name, key: s.keyOf(name)}
		s.sequences[name] = q
	}
	s.mu.Unlock()
	select {
	case q.busy <- struct{}{}:
		return q, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: %w", counter.ErrUnavailable, q.key, ctx.Err())
	}
}

func (q *sequence) leave() { <-q.busy }

// A state is what was read from a key.
type state struct {
	*record         // nil = nothing is there, or it is damaged
	text     string // that is there
	revision int64  // that wrote it; 0 = nothing is there
	cluster  string // that has answered
}

// stateOf reads an answer about one key. With counter.ErrDamaged it returns the text that is there.
func (s *Store) stateOf(key string, answer etcdlink.Answer) (state, error) {
	kvs := answer.Found[0].Pairs
	found := state{cluster: answer.Cluster}
	_ = s.began(found.cluster) // from here on that is known; an operator may go on with another one
	if len(kvs) == 0 {
		return found, nil
	}
	name := strings.TrimPrefix(key, s.keyOf(""))
	r, err := decode([]byte(kvs[0].Text))
	if err == nil && r.Name != name {
		err = fmt.Errorf("the record is that of sequence %s", r.Name)
	}
	found.text, found.revision = kvs[0].Text, kvs[0].Revision
	if errors.Is(err, errVersion) {
		return state{}, fmt.Errorf("%w: %s: %w", counter.ErrUnusable, key, err)
	} else if err != nil {
		return found, counter.Damaged(name, key, err)
	}
	found.record = &r
	return found, nil
}

// began returns nil for the cluster that answered first, and an error for any other one. Two may be there at
// once, a cluster and its restored copy.
func (s *Store) began(cluster string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == "" {
		s.cluster = cluster
	}
	if cluster == s.cluster {
		return nil
	}
	return fmt.Errorf("this is cluster %s, and the daemon began with %s: restart it", cluster, s.cluster)
}

// missing is the error for a record that is not there.
func (q *sequence) missing() error {
	if q.birth != "" {
		return fmt.Errorf("%w: %s was deleted, or etcd was wiped: define the sequence again with `katsubushi generator "+
			"create`, and raise it above every value that was issued; this daemon was granted up to %d",
			counter.ErrForeign, q.key, q.granted)
	}
	return fmt.Errorf("%w: no %s in etcd", counter.ErrUnknown, q.key)
}

// copied says why a record does not belong to its key, whoever reads it.
func (found state) copied(key string) error {
	from := ""
	switch {
	case found.Key != key:
		from = found.Key
	case found.Cluster != found.cluster:
		from = fmt.Sprintf("cluster %s, and this is %s", found.Cluster, found.cluster)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s was copied from %s. Once nobody issues from there, take it over: `katsubushi generator "+
		"raise %s %d`, or a larger value if more was issued since it was copied",
		counter.ErrForeign, key, from, key[strings.LastIndexByte(key, '/')+1:], min(found.Next, found.Max))
}

// usable says why a record must not be gone on from. Otherwise it is the one to remember.
func (q *sequence) usable(found state) error {
	if found.record == nil {
		return q.missing()
	}
	if err := found.copied(q.key); err != nil {
		return err
	}
	made := q.birth != "" && found.Birth != q.birth && found.Floor <= q.granted
	if made || found.Next <= q.granted {
		return fmt.Errorf("%w: %s was made again or set back: it says that %d is free, and this daemon was granted up to "+
			"%d. `katsubushi generator raise %s %d`, or a larger value if other daemons were granted more",
			counter.ErrForeign, q.key, found.Next, q.granted, q.name, min(q.granted+1, found.Max))
	}
	q.birth = found.Birth
	return nil
}
