package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// A Store keeps sequences in Redis. It implements counter.Store and counter.Admin. Calls are carried out
// one after another, over one connection.
type Store struct {
	*ledger.Ledger
	c        Config
	key      string
	replicas replicas // of the URL
	wire     *redislink.Wire
	prepare  func(script string, args []string) (string, []string) // what is sent for a script; nil = just that
	me       string                                                // the field of this process's note
}

// A driver is a Store's ledger.Driver.
type driver struct{ *Store }

// wordsOf are those of the hash with that key.
func wordsOf(key string) ledger.Words {
	return ledger.Words{
		Unknown: "Redis at {AT} has no sequence {NAME} as " + key,
		Lost: "Redis at {AT} has lost sequence {NAME}: `katsubushi name create` it as it was, and raise it " +
			"above {GRANTED} and all that others issued",
		Again: "the record of sequence {NAME} was made when Redis may have lost another one: `katsubushi " +
			"name raise {NAME} {LEAST}`, or more if others issued more",
		SetBack: "Redis says that {NEXT} of sequence {NAME} is free, and this process was granted up to {GRANTED}: " +
			"`katsubushi name raise {NAME} {LEAST}`, or more if others issued more",
	}
}

// Open makes a Store. It does not connect yet, so Redis need not be running.
func Open(c Config) (*Store, error) {
	t, replicas, err := c.parse()
	if err = errors.Join(err, c.ReadSecrets()); err != nil {
		return nil, err
	}
	if c.now == nil {
		c.now = wallClock
	}
	key := t.Namespace + ":sequences"
	s := &Store{
		c: c, key: key, replicas: replicas, wire: redislink.NewWire(t, key, false), me: daemonField + rand.Text(),
	}
	s.Ledger = ledger.New(driver{s}, ledger.Traits{Words: wordsOf(key), Anew: c.Operator}, nil)
	return s, nil
}

// withTurn calls f with the connection. What it returns is lost if ctx ends before.
func withTurn[T any](ctx context.Context, s *Store, f func(l *redislink.Link) (T, error)) (T, error) {
	v, err := redislink.Take(ctx, s.wire, func(l *redislink.Link) (T, func(), error) {
		v, err := f(l)
		if errors.Is(err, ErrUnconfirmed) {
			s.wire.Suspect()
		}
		return v, nil, err
	})
	if err != nil && later(err) {
		err = ledger.As(counter.ErrUnavailable, err)
	}
	return v, err
}

// Do implements ledger.Driver.
func (d driver) Do(ctx context.Context, f func() error) error {
	_, err := withTurn(ctx, d.Store, func(*redislink.Link) (none struct{}, err error) { return none, f() })
	return err
}

// NoAnswer implements ledger.Driver.
func (d driver) NoAnswer(_ string, cause error) error {
	return fmt.Errorf("%w: redis: %s: %w", counter.ErrUnavailable, d.At(""), cause)
}

// At implements ledger.Driver.
func (d driver) At(string) string { return d.wire.Where() }

// Close closes the connection.
func (d driver) Close() error {
	d.signOff()
	return d.wire.Close()
}

// Check implements ledger.Driver.
func (d driver) Check(def counter.Definition) error {
	check := line.Check
	if d.c.anyMax {
		check = counter.Definition.Check
	}
	return errors.Join(line.CheckName(def.Name), check(def))
}

// An entry is a record, and the server that it was read from.
type entry struct {
	line.Record
	on server
}

// Plain implements ledger.Entry.
func (e *entry) Plain() *counter.Record { return &e.Record.Record }

// Copy implements ledger.Entry.
func (e *entry) Copy() ledger.Entry { return &entry{e.Record, e.on} }

// Birth implements ledger.Entry.
func (e *entry) Birth() string {
	if !e.Safe {
		return ""
	}
	return fmt.Sprint(e.Created)
}

// Adopt implements ledger.Entry. The server need not have its replicas: the time that it costs runs meanwhile.
func (e *entry) Adopt(token string) bool {
	adopted := e.Record.Adopt(e.on.Moment)
	if adopted {
		e.Token = token
	}
	return adopted
}

// Reserve implements ledger.Entry.
func (e *entry) Reserve(n uint64, token string) (counter.Block, error) {
	err := e.Usable(e.on.Moment)
	if errors.Is(err, line.ErrNotSafe) {
		err = ledger.As(ledger.ErrUnsettled, err)
	}
	if err == nil {
		err = e.on.enough()
	}
	if err != nil {
		return counter.Block{}, err
	}
	return e.Record.Reserve(e.on.Moment, n, token)
}

// Return implements ledger.Entry.
func (e *entry) Return(b counter.Block, next uint64, token string) error {
	return e.Record.Return(e.on.Moment, b, next, token)
}

// Raise implements ledger.Entry.
func (e *entry) Raise(atLeast uint64, token string) error {
	return e.Record.Raise(e.on.Moment, atLeast, token)
}

// Retire implements ledger.Entry.
func (e *entry) Retire(token string) {
	e.Record.Retire(token)
	e.Safe = false
}
