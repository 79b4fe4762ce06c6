package etcd

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// A Store keeps sequences in etcd. It implements counter.Store and counter.Admin. Reserve refuses order=strict with
// counter.ErrOrder: see Within.
type Store struct {
	*ledger.Ledger
	link link
	me   string // the key of this process's note

	mu      sync.Mutex
	cluster string // that answered first; empty = none yet

	groupsFixed atomic.Bool // the number of groups was read
	// tells the Watch that is under way that another daemon may lead
	hint atomic.Pointer[func(map[int]leader.Leader)]
}

// A driver is a Store's ledger.Driver.
type driver struct{ *Store }

const setBack = "{AT} was made again or set back: it says that {NEXT} is free, and this daemon was granted up to " +
	"{GRANTED}. `katsubushi name raise {NAME} {LEAST}`, or a larger value if other daemons were granted more"

var words = ledger.Words{
	Unknown: "no {AT} in etcd",
	Lost: "{AT} was deleted, or etcd was wiped: define the sequence again with `katsubushi name " +
		"create`, and raise it above every value that was issued; this daemon was granted up to {GRANTED}",
	Again:      setBack,
	SetBack:    setBack,
	Unanswered: "{AT}: an answer of etcd was lost, and it may have been carried out",
}

// Open makes a Store. It does not connect; the error is that of Config.Validate.
func Open(c Config) (*Store, error) {
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	s := &Store{link: link{etcdlink.NewLink(etcdlink.TargetOf(t), c.Timeout)}, me: rand.Text()}
	s.Ledger = ledger.New(driver{s}, ledger.Traits{Words: words, Together: counter.MaxRests, Patient: true}, nil)
	return s, nil
}

func (s *Store) keyOf(name string) string { return s.link.Root + "seq/" + name }
func (s *Store) changesKey() string       { return s.link.Root + "changes" }

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

// Do implements ledger.Driver: the client library keeps to contexts.
func (d driver) Do(_ context.Context, f func() error) error { return f() }

// NoAnswer implements ledger.Driver.
func (d driver) NoAnswer(name string, cause error) error {
	return fmt.Errorf("%w: %s: %w", counter.ErrUnavailable, d.keyOf(name), cause)
}

// At implements ledger.Driver.
func (d driver) At(name string) string { return d.keyOf(name) }

// Check implements ledger.Driver.
func (d driver) Check(def counter.Definition) error { return def.Check() }

// Close closes the connections.
func (d driver) Close() error {
	d.signOff()
	return d.link.Close()
}
