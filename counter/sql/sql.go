package sql

import (
	"context"
	databasesql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
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
	Token    func() string // returns a text of at most 64 bytes that no process has had before; default random

	limit time.Duration // for tests: in place of patience; 0 = that
}

const (
	connections = 16          // at most, at once
	idle        = 4           // that are kept
	idleTime    = time.Minute // for which they are
)

// A Store keeps sequences in a table. It implements counter.Store and counter.Admin.
type Store struct {
	*ledger.Ledger
	d *table
}

// Open makes a Store. It does not connect: the server need not run. Its errors are Validate's.
func Open(c Config) (*Store, error) {
	t, err := c.parse()
	if err != nil {
		return nil, err
	}
	d := &table{c: c, t: t, db: databasesql.OpenDB(connector{t, c.PasswordFile}), floors: map[string]uint64{}}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(idle)
	d.db.SetConnMaxIdleTime(idleTime)
	d.Gate = ledger.NewGate(connections, d.noAnswer)
	return &Store{ledger.New(d, ledger.Traits{Words: words}, c.Token), d}, nil
}

// Define implements counter.Store. It refuses order=strict with counter.ErrOrder. A row of Leaf's table begins where
// its definition says.
func (s *Store) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	r, err := s.Ledger.Define(ctx, d)
	if s.d.t.leaf && d.Start <= r.Next {
		r.Start = d.Start
	}
	return r, err
}

// Retire implements counter.Admin. Of Leaf's table it returns ErrNoRetire.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	if s.d.t.leaf {
		return counter.Record{}, ErrNoRetire
	}
	return s.Ledger.Retire(ctx, name)
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
	ctx, cancel := context.WithTimeout(ctx, c.t.patience)
	defer cancel()
	return real.Connect(ctx)
}

// Driver implements driver.Connector. Nothing calls it.
func (c connector) Driver() driver.Driver { return nil }

func (d *table) noAnswer(err error) error {
	return fmt.Errorf("%w: %s: %w", counter.ErrUnavailable, d.t, err)
}

// explain says what an error of the server means. Whatever was asked may have been done.
func (d *table) explain(err error) error {
	switch fault := d.t.kind.explain(err); {
	case err == nil:
		return nil
	case errors.Is(err, errPassword):
		return fmt.Errorf("%s: %w", d.t, err)
	case fault.text == noTable:
		return fmt.Errorf("%s: %w: %s", d.t, err, d.t.noTable())
	case fault.temporary():
		return fmt.Errorf("%w: %s: %s (%w)", counter.ErrUnavailable, d.t, fault.text, err)
	case fault.text != "":
		return fmt.Errorf("%s: %s (%w)", d.t, fault.text, err)
	case fault.answered:
		return fmt.Errorf("%s: %w", d.t, err)
	}
	return d.noAnswer(err)
}

// check says why a server in that condition is not used.
func (d *table) check(condition string) error {
	switch {
	case condition == readOnly:
		return fmt.Errorf("%w: %s: %s", counter.ErrUnavailable, d.t, replica)
	case condition == unlogged:
		return fmt.Errorf(
			"%s: the table does not survive a crash of the server: it must be an ordinary one, of InnoDB on MySQL", d.t)
	case condition == unsynced && !d.c.Lax:
		return fmt.Errorf(
			"%s: the server may lose what it has committed, so that values could repeat: turn fsync on, or set "+
				"innodb_flush_log_at_trx_commit to 1, and sync_binlog too if there is a binary log (-state-any-disk accepts it)",
			d.t)
	}
	return nil
}
