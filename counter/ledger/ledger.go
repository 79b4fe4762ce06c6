package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// A Ledger keeps sequences over a Driver. Any goroutine may call its methods.
type Ledger struct {
	*book
	fence Fence // see Within; nil = none
}

// A book is what a Ledger has in common with those that Within returns.
type book struct {
	d Driver
	Traits
	token func() string

	mu    sync.Mutex
	known map[string]*memory
	note  note
	told  told
}

var (
	_ counter.Store = (*Ledger)(nil)
	_ counter.Admin = (*Ledger)(nil)

	_ counter.Timekeeper = (*Ledger)(nil)
)

// New makes a Ledger. token returns a text that no process has had before; nil = a random one.
func New(d Driver, t Traits, token func() string) *Ledger {
	if token == nil {
		token = rand.Text
	}
	t.Together = max(t.Together, 1)
	return &Ledger{book: &book{d: d, Traits: t, token: token, known: map[string]*memory{}}}
}

// Within returns a Store that reserves and gives back only while a term of leadership lasts. Its Close does
// nothing.
func (l *Ledger) Within(fence Fence) counter.Store { return &Ledger{l.book, fence} }

// Close releases what the Driver holds.
func (l *Ledger) Close() error {
	if l.fence != nil {
		return nil
	}
	return l.d.Close()
}

// ask lets f use the Driver. What f makes is the caller's only once f has returned.
func ask[T any](ctx context.Context, l *Ledger, f func() (T, error)) (v T, err error) {
	made := make(chan T, 1)
	err = l.d.Do(ctx, func() error {
		v, err := f()
		made <- v
		return err
	})
	select {
	case v = <-made:
	default:
		err = cmp.Or(err, ctx.Err())
	}
	return v, err
}

// unless returns the entry, or else the error alone.
func unless(err error, e Entry) (Entry, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Define implements counter.Store. With counter.ErrForeign it returns the record as it was found.
func (l *Ledger) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := l.d.Check(d); err != nil {
		return counter.Record{}, err
	}
	define := func(j *job, token string) (Entry, error) {
		switch {
		case j.found.Entry != nil:
			return nil, nil
		case !l.Anew && l.remembers(j.m):
			return nil, l.missing(j.name)
		}
		next, err := l.d.New(j.found, d, token)
		if errors.Is(err, ErrDoubt) {
			l.update(j.m, func(m *memory) { m.doubt = true })
		}
		return unless(cmp.Or(err, j.found.Fixed), next)
	}
	return ask(ctx, l, func() (r counter.Record, err error) {
		if p, ok := l.d.(Preparer); ok {
			if err := p.Prepare(); err != nil {
				return r, err
			}
		}
		j := job{name: d.Name, announce: true, change: define}
		err = l.withNode(ctx, d, func() error { return l.carryOut(ctx, &j) })
		if err == nil && j.found.Entry.Birth() == "" {
			err = l.settle(ctx, &j, true)
		}
		if err != nil {
			return r, err
		}
		return *j.found.Entry.Plain(), l.judge(j.m, j.found, j.found.Entry)
	})
}

// nodeLock is a name that no sequence has. A Locker locks it for those who look whether a node is free, and define
// timestamps.
const nodeLock = "the nodes of timestamps"

// withNode defines timestamps, unless another sequence has their node. A Driver without locks sees to that in Swap.
func (l *Ledger) withNode(ctx context.Context, d counter.Definition, define func() error) error {
	if _, ok := l.d.(Locker); !ok || !d.Timed() {
		return define()
	}
	return l.locked(ctx, nodeLock, func() error {
		all, err := l.list(ctx, false)
		if err != nil {
			return err
		}
		there := func(r counter.Record) bool { return r.Name == d.Name }
		for _, r := range all { // of one that is there whoever reads it says what is wrong
			if r.Time.Layout == d.Time.Layout && r.Time.Node == d.Time.Node && !slices.ContainsFunc(all, there) {
				return counter.NodeTaken(d, r.Name)
			}
		}
		return define()
	})
}

// operator carries out what an operator wants.
func (l *Ledger) operator(ctx context.Context, j job) (counter.Record, error) {
	return ask(ctx, l, func() (counter.Record, error) {
		err := l.carryOut(ctx, &j)
		if err == nil {
			err = l.settle(ctx, &j, true)
		}
		if err != nil {
			return counter.Record{}, err
		}
		return *j.found.Entry.Plain(), nil
	})
}

// settle lets a Settler bring what an operator has written where a loss cannot take it.
func (l *Ledger) settle(ctx context.Context, j *job, operator bool) (err error) {
	s, ok := l.d.(Settler)
	if !ok {
		return nil
	}
	if j.found, err = s.Settle(ctx, j.name, operator); err == nil && j.found.Entry == nil {
		err = l.missing(j.name)
	}
	return err
}

// Reserve implements counter.Store.
func (l *Ledger) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	return l.reserve(ctx, name, func(e Entry, token string) (counter.Block, error) { return e.Reserve(n, token) })
}

// Advance implements counter.Timekeeper.
func (l *Ledger) Advance(ctx context.Context, name string, s counter.Span) (counter.Block, error) {
	return l.reserve(ctx, name, func(e Entry, token string) (counter.Block, error) { return e.Plain().Advance(s, token) })
}

// reserve has an entry grant something.
func (l *Ledger) reserve(
	ctx context.Context, name string, grant func(e Entry, token string) (counter.Block, error),
) (counter.Block, error) {
	return ask(ctx, l, func() (b counter.Block, err error) {
		j := job{name: name}
		j.change = func(j *job, token string) (Entry, error) {
			if j.found.Entry == nil {
				return nil, l.missing(name)
			}
			next := j.found.Entry.Copy()
			adopted := next.Adopt(token)
			err := l.admit(j, next)
			if err == nil {
				b, err = grant(next, token)
			}
			if !adopted {
				return unless(err, next)
			}
			return next, err
		}
		j.done = func(m *memory) { m.granted, m.history = b.Hi, j.found.History }
		if l.Signs && !l.Signed() {
			l.sign(ctx, "")
		}
		err = l.carryOut(ctx, &j)
		if errors.Is(err, ErrUnsettled) {
			if err = l.settle(ctx, &j, false); err == nil {
				err = l.carryOut(ctx, &j)
			}
		}
		if errors.Is(err, ErrUncounted) && b.Token != "" { // b is not returned, so it need not be a gap
			_ = l.carryOut(ctx, l.returning(counter.Rest{Name: name, Block: b, Next: b.Lo}))
		}
		if err != nil {
			b = counter.Block{}
		}
		return b, err
	})
}

// admit returns why nothing may be reserved from an entry, or given back to it.
func (l *Ledger) admit(j *job, e Entry) error {
	err := l.judge(j.m, j.found, e)
	if a, ok := l.d.(Admitter); ok && err == nil {
		err = a.Admit(l.fence, j.found)
	}
	return err
}

// Return implements counter.Store.
func (l *Ledger) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	return l.ReturnAll(ctx, []counter.Rest{{Name: name, Block: b, Next: next}})[0]
}

// ReturnAll implements counter.Store. It gives back as many rests at once as the store takes in one Swap, and the
// others meanwhile.
func (l *Ledger) ReturnAll(ctx context.Context, rests []counter.Rest) []error {
	errs := make([]error, len(rests))
	var all sync.WaitGroup
	for from := 0; from < len(rests); from += l.Together {
		some := rests[from:min(from+l.Together, len(rests))]
		all.Go(func() {
			jobs, err := ask(ctx, l, func() (jobs []*job, err error) {
				for _, r := range some {
					jobs = append(jobs, l.returning(r))
				}
				err = l.carryOut(ctx, jobs...)
				return jobs, err
			})
			for i := range some {
				if errs[from+i] = err; len(jobs) > 1 {
					errs[from+i] = jobs[i].err
				}
			}
		})
	}
	all.Wait()
	return errs
}

// returning is the job of a Return.
func (l *Ledger) returning(rest counter.Rest) *job {
	return &job{name: rest.Name, patient: true, gap: true, change: func(j *job, token string) (Entry, error) {
		if j.found.Entry == nil {
			return nil, l.missing(j.name)
		}
		next := j.found.Entry.Copy()
		var err error
		if _, lossy := l.d.(Settler); !lossy { // or else the entry knows what a loss is
			err = l.admit(j, next)
		}
		if err == nil {
			err = next.Return(rest.Block, rest.Next, token)
		}
		if err == nil { // whether the write succeeds or not: the caller does not use them again
			l.update(j.m, func(m *memory) { m.granted, m.returns = min(m.granted, rest.Next-1), m.returns+1 })
		}
		return unless(err, next)
	}}
}

// Raise implements counter.Admin.
func (l *Ledger) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return l.operate(ctx, name, func(e Entry, token string) error { return e.Raise(atLeast, token) })
}

// Retire implements counter.Admin.
func (l *Ledger) Retire(ctx context.Context, name string) (counter.Record, error) {
	return l.operate(ctx, name, func(e Entry, token string) error {
		e.Retire(token)
		return nil
	})
}

// operate changes a record on behalf of an operator, also a foreign one.
func (l *Ledger) operate(ctx context.Context, name string,
	change func(e Entry, token string) error) (counter.Record, error) {
	operate := func(j *job, token string) (Entry, error) {
		if j.found.Entry == nil {
			return nil, l.missing(name)
		}
		next := j.found.Entry.Copy()
		err := cmp.Or(j.found.Fixed, change(next, token))
		return unless(err, next)
	}
	return l.operator(ctx, job{name: name, patient: true, announce: true, change: operate})
}

// Revive implements counter.Admin.
func (l *Ledger) Revive(ctx context.Context, d counter.Definition, atLeast uint64) (counter.Record, error) {
	if err := l.d.Check(d); err != nil {
		return counter.Record{}, err
	}
	revive := func(j *job, token string) (Entry, error) {
		switch {
		case j.found.Entry != nil:
			return nil, counter.Whole(d.Name)
		case j.found.Fault == nil:
			return nil, l.missing(d.Name)
		}
		next, err := l.d.New(j.found, d, token)
		if err = cmp.Or(err, j.found.Fixed); err == nil {
			err = next.Raise(atLeast, token)
		}
		return unless(err, next)
	}
	return l.operator(ctx, job{name: d.Name, announce: true, revive: true, change: revive})
}
