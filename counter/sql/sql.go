package sql

import (
	"context"
	"crypto/rand"
	databasesql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// Config is what a Store is made of. Only URL is required.
type Config struct {
	// postgres:// or mysql://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME&layout=leaf; docs/SEQUENCES.md has all
	// options
	URL          string
	PasswordFile string // read for every connection; empty = that of the URL, or none
	// accept a server that may lose what it has committed: fsync=off,
	// innodb_flush_log_at_trx_commit=2, sync_binlog=0
	Lax      bool
	Operator bool          // a human asks: Define may make a row in Leaf's table
	Log      *slog.Logger  // default none
	Token    func() string // returns a text of at most 64 bytes that no process has had before; default random
}

const (
	connections = 16          // at most, at once
	idle        = 4           // that are kept
	idleTime    = time.Minute // for which they are
)

// A Store keeps sequences in a table. It implements counter.Store and counter.Admin.
type Store struct {
	c  Config
	t  *target
	db *databasesql.DB

	slots chan struct{} // one token for each goroutine that asks the server

	mu        sync.Mutex
	sequences map[string]*sequence // by name: all that this process has asked for
	said      *statements          // nil = the server was not asked yet for what they depend on
	raised    uint64               // how often this process has raised a row of Leaf's table
	closed    bool
}

var (
	_ counter.Store = (*Store)(nil)
	_ counter.Admin = (*Store)(nil)
)

// Open makes a Store. It does not connect: the server need not run. Its errors are Validate's.
func Open(c Config) (*Store, error) {
	t, err := c.parse()
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Token == nil {
		c.Token = rand.Text
	}
	s := &Store{c: c, t: t, slots: make(chan struct{}, connections), sequences: map[string]*sequence{}}
	s.db = databasesql.OpenDB(connector{t, c.PasswordFile})
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(idle)
	s.db.SetConnMaxIdleTime(idleTime)
	return s, nil
}

// Close closes the connections. It does not wait for a server that does not answer.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	go s.db.Close() // waits for calls under way, each for patience at most
	return nil
}

// A connector reads the password again for every connection, so that it can be changed.
type connector struct {
	t            *target
	passwordFile string
}

var errPassword = errors.New("-counters-password-file")

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	password, err := endpoint.Secret(c.t.password, c.passwordFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPassword, err)
	}
	real, err := c.t.kind.connector(c.t, password)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return real.Connect(ctx)
}

// Driver implements driver.Connector. Nobody asks for it.
func (c connector) Driver() driver.Driver { return nil }

// known returns what the Store knows of a sequence.
func (s *Store) known(name string) *sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.sequences[name]
	if q == nil {
		q = &sequence{s: s, name: name, busy: make(chan struct{}, 1)}
		s.sequences[name] = q
	}
	return q
}

// do lets f ask the server about one sequence, and nobody else of this process meanwhile. It returns
// when ctx has ended; then f may still be under way.
func do[T any](ctx context.Context, s *Store, name string, f func(q *sequence, say *statements) (T, error)) (none T,
	err error) {
	if name == "" || len(name) > 64 {
		return none, fmt.Errorf("%w: %q", counter.ErrUnknown, name)
	}
	q := s.known(name)
	select {
	case q.busy <- struct{}{}:
	case <-ctx.Done():
		return none, s.noAnswer(ctx.Err())
	}
	return ask(ctx, s, func() { <-q.busy }, func(say *statements) (T, error) { return f(q, say) })
}

// ask runs f in a goroutine, as a server that has stopped may block a driver whatever its context
// says, and then leave.
func ask[T any](ctx context.Context, s *Store, leave func(), f func(say *statements) (T, error)) (none T, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		leave()
		return none, s.noAnswer(ctx.Err())
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		say, err := s.statements(ctx)
		if r.err = err; err == nil {
			r.v, r.err = f(say)
		}
		<-s.slots
		leave()
		done <- r
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, s.noAnswer(ctx.Err())
	}
}

// statements returns those of the server, which it asks the first time.
func (s *Store) statements(ctx context.Context) (*statements, error) {
	s.mu.Lock()
	said, closed := s.said, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case ctx.Err() != nil:
		return nil, s.noAnswer(ctx.Err())
	case said != nil:
		return said, nil
	}
	history, err := s.t.kind.history(ctx, s.db, s.t)
	if err != nil {
		return nil, s.explain(err)
	}
	said = s.t.kind.statements(s.t, history)
	s.mu.Lock()
	s.said = said
	s.mu.Unlock()
	return said, nil
}

func (s *Store) noAnswer(err error) error {
	return fmt.Errorf("%w: %s: %w", counter.ErrUnavailable, s.t, err)
}

// explain says what an error of the server means. Whatever was asked may have been done.
func (s *Store) explain(err error) error {
	switch fault := s.t.kind.explain(err); {
	case err == nil:
		return nil
	case errors.Is(err, errPassword):
		return fmt.Errorf("%s: %w", s.t, err)
	case fault.text == noTable:
		return fmt.Errorf("%s: %w: %s", s.t, err, s.t.noTable())
	case fault.temporary():
		return fmt.Errorf("%w: %s: %s (%w)", counter.ErrUnavailable, s.t, fault.text, err)
	case fault.text != "":
		return fmt.Errorf("%s: %s (%w)", s.t, fault.text, err)
	case fault.answered:
		return fmt.Errorf("%s: %w", s.t, err)
	}
	return s.noAnswer(err)
}

// check says why a server in that condition is not used.
func (s *Store) check(condition string) error {
	switch {
	case condition == readOnly:
		return fmt.Errorf("%w: %s: %s", counter.ErrUnavailable, s.t, replica)
	case condition == unlogged:
		return fmt.Errorf(
			"%s: the table does not survive a crash of the server: it must be an ordinary one, of InnoDB on MySQL", s.t)
	case condition == unsynced && !s.c.Lax:
		return fmt.Errorf(
			"%s: the server may lose what it has committed, so that values could repeat: turn fsync on, or set "+
				"innodb_flush_log_at_trx_commit to 1, and sync_binlog too if there is a binary log (-state-any-disk accepts it)",
			s.t)
	}
	return nil
}
