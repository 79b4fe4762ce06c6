package redis

import (
	"cmp"
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
	gap      bool // a loss of it leaves a gap and no more, so no replica is waited for
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
		wait := on.needed
		if h.gap {
			wait = 0
		}
		ok, have, err := s.write(on, name, old, next.Encode(), h.announce, wait)
		switch {
		case err != nil:
			return line.Record{}, err
		case !ok:
			continue
		case failed != nil:
			return *next, failed
		case h.safe:
			return s.confirm(ctx, l, name)
		case have < wait:
			return *next, fmt.Errorf("redis: %w: %d of %d have what was written", ErrUnconfirmed, have, wait)
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
	if err == nil {
		err = s.oneMaster(on, values[1].text)
	}
	if err != nil {
		return on, nil, "", err
	}
	if !values[0].there {
		return on, nil, values[1].text, nil
	}
	r, err := s.decode(name, values[0].text)
	return on, &r, values[1].text, err
}

// decode reads a record's text. The error is counter.ErrDamaged, or counter.ErrUnusable of another version's.
func (s *Store) decode(name, text string) (line.Record, error) {
	r, err := line.Decode(text)
	if err == nil && r.Name != name {
		err = fmt.Errorf("it is that of %s", r.Name)
	}
	where := fmt.Sprintf("sequence %s as %s in Redis", name, s.key)
	switch {
	case errors.Is(err, line.ErrVersion):
		return r, fmt.Errorf("%w: %s: %w", counter.ErrUnusable, where, err)
	case err != nil:
		return r, counter.Damaged(name, where, err)
	}
	return r, nil
}

// confirm is makeSafe, for what an operator has written. After an error it stays written: others may have read it.
func (s *Store) confirm(ctx context.Context, l *redislink.Link, name string) (line.Record, error) {
	r, err := s.makeSafe(ctx, l, name)
	if err != nil {
		err = fmt.Errorf("%w. It is recorded on the master all the same, and holds once that is over; "+
			"a fail-over before may undo it: see `katsubushi generator show %s`", err, name)
	}
	return r, err
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
		if err := on.enough(); err != nil {
			return *found, fmt.Errorf("%w: %w", line.ErrNotSafe, err)
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
		if errors.Is(err, ErrUnconfirmed) {
			s.wire.Suspect()
		}
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
		r, err := s.change(ctx, l, d.Name, how{safe: true, announce: true},
			func(on server, found *line.Record, began, token string) (*line.Record, error) {
				if found != nil {
					return nil, there
				}
				forgotten := began != "" && began != on.History
				if !s.c.Operator && (began == "" || forgotten) {
					return nil, s.notThere(d, forgotten)
				}
				if err := on.enoughToChange(); err != nil {
					return nil, err
				}
				r := line.New(d, on.Moment, forgotten, token)
				return &r, nil
			})
		if errors.Is(err, there) {
			if err = nil; !r.Safe {
				r, err = s.confirm(ctx, l, d.Name)
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
			b = counter.Block{}
			if found == nil {
				return nil, s.missing(name)
			}
			r := *found
			adopted := r.Adopt(on.Moment) // also without its replicas: the time that it costs runs meanwhile
			if adopted {
				r.Token = token
			}
			err := s.setBack(&r)
			if err == nil {
				err = r.Usable(on.Moment)
			}
			if err == nil {
				err = on.enough()
			}
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
		if errors.Is(err, ErrUnconfirmed) && b.Token != "" { // nobody is told of b, so it need not be a gap
			_ = s.giveBack(ctx, l, name, b, b.Lo, false)
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
		return none, s.giveBack(ctx, l, name, b, next, true)
	})
	return err
}

// giveBack is Return. It needs the turn. told: the caller of Reserve got b, so this process remembers it.
func (s *Store) giveBack(
	ctx context.Context, l *redislink.Link, name string, b counter.Block, next uint64, told bool,
) error {
	returning := func(on server, found *line.Record, _, token string) (*line.Record, error) {
		if found == nil {
			return nil, s.missing(name)
		}
		r := *found
		if err := r.Return(on.Moment, b, next, token); err != nil {
			return nil, err
		}
		if told {
			s.note(name, next-1) // whether the write succeeds or not: the caller does not use them again
		}
		return &r, nil
	}
	_, err := s.change(ctx, l, name, how{gap: true}, returning)
	return err
}

// Raise implements counter.Admin. It counts only when it is where a loss cannot take it; until then nothing
// is granted.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.edit(ctx, name, func(r *line.Record, on server, token string) error {
		return r.Raise(on.Moment, atLeast, token)
	})
}

// Revive implements counter.Admin. Like Raise it counts only when it is where a loss cannot take it.
func (s *Store) Revive(ctx context.Context, d counter.Definition, atLeast uint64) (counter.Record, error) {
	if err := errors.Join(line.CheckName(d.Name), s.check(d)); err != nil {
		return counter.Record{}, err
	}
	r, err := withTurn(ctx, s, func(l *redislink.Link) (line.Record, error) {
		on, values, err := s.read(field(d.Name))
		switch {
		case err != nil:
			return line.Record{}, err
		case !values[0].there:
			return line.Record{}, s.missing(d.Name)
		}
		if _, err := s.decode(d.Name, values[0].text); !errors.Is(err, counter.ErrDamaged) {
			return line.Record{}, cmp.Or(err, counter.Whole(d.Name))
		}
		if err := on.enoughToChange(); err != nil {
			return line.Record{}, err
		}
		token := rand.Text()
		r := line.New(d, on.Moment, false, token)
		if err := r.Raise(on.Moment, atLeast, token); err != nil {
			return line.Record{}, err
		}
		ok, _, err := s.write(on, d.Name, values[0].text, r.Encode(), true, on.needed)
		if err == nil && !ok {
			err = errors.New("redis: somebody else has written meanwhile")
		}
		if err != nil {
			return line.Record{}, err
		}
		return s.confirm(ctx, l, d.Name)
	})
	if err != nil {
		return counter.Record{}, err
	}
	return r.Record, nil
}

// Retire implements counter.Admin.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.edit(ctx, name, func(r *line.Record, _ server, token string) error {
		r.Retire(token)
		r.Safe = false
		return nil
	})
}

func (s *Store) edit(ctx context.Context, name string,
	f func(r *line.Record, on server, token string) error) (counter.Record, error) {
	r, err := withTurn(ctx, s, func(l *redislink.Link) (line.Record, error) {
		return s.change(ctx, l, name, how{safe: true, announce: true},
			func(on server, found *line.Record, _, token string) (*line.Record, error) {
				if found == nil {
					return nil, s.missing(name)
				}
				if err := on.enoughToChange(); err != nil {
					return nil, err
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
