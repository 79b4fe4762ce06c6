package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// A Store keeps sequences in Redis. It implements counter.Store and counter.Admin. Calls are carried out
// one after another, over one connection.
type Store struct {
	c        Config
	key      string
	replicas replicas // of the URL
	wire     *redislink.Wire
	prepare  func(c script, args []string) (script, []string) // what is sent for a script; nil = just that

	mu   sync.Mutex
	seen map[string]*memory // of the sequences that this process knows

	noted counter.Note // in the field me; needs the turn
	me    string
}

var (
	_ counter.Store = (*Store)(nil)
	_ counter.Admin = (*Store)(nil)
	_ counter.Roll  = (*Store)(nil)
)

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
	return &Store{
		c: c, key: key, replicas: replicas, wire: redislink.NewWire(t, key, c.TLS, false),
		seen: map[string]*memory{}, me: daemonField + rand.Text(),
	}, nil
}

// Close closes the connection.
func (s *Store) Close() error {
	s.signOff()
	return s.wire.Close()
}

// field is the name of a record in the hash.
func field(name string) string { return "=" + name }

// attempts is how often a call tries again because another one has written meanwhile.
const attempts = 1000

// An edit changes the record that was found, or returns another one, or nil to leave all as it is; with an
// error too, what it returns is written. found is nil if there is no record.
type edit func(on server, found *line.Record, began string, token string) (*line.Record, error)

// How a change is written.
type how struct {
	safe     bool // it counts only when a loss cannot take it
	announce bool // it is one of those that Changes tells
}

// change lets f change a record. It needs the turn. The record that it returns is what is recorded.
func (s *Store) change(ctx context.Context, l *redislink.Link, name string, h how, f edit) (line.Record, error) {
	for range attempts {
		if err := ctx.Err(); err != nil {
			return line.Record{}, err
		}
		on, found, began, err := s.find(name)
		if err != nil {
			return line.Record{}, err
		}
		old := ""
		if found != nil {
			old = found.Encode()
		}
		next, failed := f(on, found, began, rand.Text())
		if next == nil {
			if found != nil {
				return *found, failed
			}
			return line.Record{}, failed
		}
		ok, have, err := s.write(on, name, old, next.Encode(), h.announce, on.needed)
		switch {
		case err != nil:
			return line.Record{}, err
		case !ok:
			continue
		case failed != nil:
			return *next, failed
		case h.safe:
			return s.makeSafe(ctx, l, name)
		case have < on.needed:
			return *next, fmt.Errorf("redis: %w: %d of %d replicas", ErrUnconfirmed, have, on.needed)
		}
		return *next, nil
	}
	return line.Record{}, fmt.Errorf("redis: sequence %s: others wrote %d times meanwhile", name, attempts)
}

// find reads a record; nil = there is none. began is the history in which the namespace began, empty if it
// has not.
func (s *Store) find(name string) (on server, found *line.Record, began string, err error) {
	before := s.c.now()
	on, values, err := s.read(field(name), "history")
	if err == nil {
		err = skewed(before, on.Now, s.c.now())
	}
	if err != nil {
		return on, nil, "", err
	}
	if values[0] == "" {
		return on, nil, values[1], nil
	}
	r, err := line.Decode(values[0])
	if err == nil && r.Name != name {
		err = fmt.Errorf("redis: the record of sequence %s is that of %s", name, r.Name)
	}
	return on, &r, values[1], err
}

// makeSafe brings a record where a loss cannot take it, and records that it is there (R4). To write it
// again makes sure that this connection's WAIT is about it, whoever wrote it.
func (s *Store) makeSafe(ctx context.Context, l *redislink.Link, name string) (line.Record, error) {
	for range attempts {
		if err := ctx.Err(); err != nil {
			return line.Record{}, err
		}
		on, found, _, err := s.find(name)
		if err != nil {
			return line.Record{}, err
		}
		if found == nil {
			return line.Record{}, s.missing(name)
		}
		if found.Safe {
			return *found, nil
		}
		touched := *found
		touched.Token = rand.Text()
		ok, have, err := s.write(on, name, found.Encode(), touched.Encode(), false, max(on.replicas, on.needed))
		if err != nil {
			return line.Record{}, err
		}
		if !ok {
			continue
		}
		if err := s.safe(l, on, have); err != nil {
			return touched, err
		}
		safe := touched
		safe.Safe, safe.Token = true, rand.Text()
		if ok, _, err = s.write(on, name, touched.Encode(), safe.Encode(), false, 0); err != nil || ok {
			return safe, err
		}
	}
	return line.Record{}, fmt.Errorf("redis: sequence %s: others wrote %d times meanwhile", name, attempts)
}

// withTurn calls f with the connection. What it returns is lost if ctx ends before.
func withTurn[T any](ctx context.Context, s *Store, f func(l *redislink.Link) (T, error)) (T, error) {
	v, err := redislink.Take(ctx, s.wire, func(l *redislink.Link) (T, func(), error) {
		v, err := f(l)
		return v, nil, err
	})
	if err != nil && later(err) {
		err = unavailable{err}
	}
	return v, err
}

// Define implements counter.Store. The record counts only when it is where a loss cannot take it. Only an
// operator begins a namespace. If Redis has restarted or failed over since, a record that is missing may
// have been forgotten: then only an operator makes it, and nothing is granted before Raise.
func (s *Store) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := errors.Join(line.CheckName(d.Name), s.check(d)); err != nil {
		return counter.Record{}, err
	}
	r, err := withTurn(ctx, s, func(l *redislink.Link) (line.Record, error) {
		there := errors.New("there")
		r, err := s.change(ctx, l, d.Name, how{safe: true, announce: true}, func(on server, found *line.Record, began, token string) (*line.Record, error) {
			if found != nil {
				return nil, there
			}
			forgotten := began != "" && began != on.History
			if !s.c.Operator && (began == "" || forgotten) {
				return nil, s.notThere(d, forgotten)
			}
			r := line.New(d, on.Moment, forgotten, token)
			return &r, nil
		})
		if errors.Is(err, there) {
			if err = nil; !r.Safe {
				r, err = s.makeSafe(ctx, l, d.Name)
			}
		}
		if err == nil {
			err = s.setBack(&r)
		}
		if err == nil && r.Foreign {
			err = r.Usable(line.Moment{})
		}
		return r, err
	})
	return r.Record, err
}

func (s *Store) check(d counter.Definition) error {
	if s.c.anyMax {
		return d.Check()
	}
	return line.Check(d)
}

// Reserve implements counter.Store.
func (s *Store) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	return withTurn(ctx, s, func(l *redislink.Link) (b counter.Block, err error) {
		reserve := func(on server, found *line.Record, _, token string) (*line.Record, error) {
			if found == nil {
				return nil, s.missing(name)
			}
			r := *found
			adopted := r.Adopt(on.Moment)
			if adopted {
				r.Token = token
			}
			err := s.setBack(&r)
			if err == nil {
				b, err = r.Reserve(on.Moment, n, token)
			}
			if err != nil && !adopted {
				return nil, err
			}
			return &r, err
		}
		_, err = s.change(ctx, l, name, how{}, reserve)
		if errors.Is(err, line.ErrNotSafe) {
			if _, err = s.makeSafe(ctx, l, name); err == nil {
				_, err = s.change(ctx, l, name, how{}, reserve)
			}
		}
		if err != nil {
			return counter.Block{}, err
		}
		s.note(name, b.Hi)
		return b, nil
	})
}

// Return implements counter.Store.
func (s *Store) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	_, err := withTurn(ctx, s, func(l *redislink.Link) (none struct{}, err error) {
		_, err = s.change(ctx, l, name, how{}, func(on server, found *line.Record, _, token string) (*line.Record, error) {
			if found == nil {
				return nil, s.missing(name)
			}
			r := *found
			if err := r.Return(on.Moment, b, next, token); err != nil {
				return nil, err
			}
			s.note(name, next-1) // whether the write succeeds or not: the caller does not use them again
			return &r, nil
		})
		return none, err
	})
	return err
}

// Raise implements counter.Admin. It counts only when it is where a loss cannot take it; until then nothing
// is granted.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.edit(ctx, name, func(r *line.Record, on server, token string) error { return r.Raise(on.Moment, atLeast, token) })
}

// Retire implements counter.Admin.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.edit(ctx, name, func(r *line.Record, _ server, token string) error {
		r.Retire(token)
		r.Safe = false
		return nil
	})
}

func (s *Store) edit(ctx context.Context, name string, f func(r *line.Record, on server, token string) error) (counter.Record, error) {
	r, err := withTurn(ctx, s, func(l *redislink.Link) (line.Record, error) {
		return s.change(ctx, l, name, how{safe: true, announce: true}, func(on server, found *line.Record, _, token string) (*line.Record, error) {
			if found == nil {
				return nil, s.missing(name)
			}
			r := *found
			if err := f(&r, on, token); err != nil {
				return nil, err
			}
			return &r, nil
		})
	})
	if err != nil {
		return counter.Record{}, err
	}
	return r.Record, nil
}
