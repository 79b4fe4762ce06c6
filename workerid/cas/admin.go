package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Errors of an Admin, beside those of a Store. With each of them nothing was changed.
var (
	// ErrHeld: daemons that must stop first hold worker ids.
	ErrHeld = errors.New("worker ids are held")
	// ErrFloorSteady: of ResetClock. No wrong clock has left a floor behind.
	ErrFloorSteady = errors.New("the floor is not further ahead than after a restore: there is nothing to reset")
)

// adminTimes is how many times the time of a daemon's call an Admin's call may take, and its connection: a busy server
// needs seconds for either, and unlike a Store the Admin does not try again.
const adminTimes = 10

// An Admin is the operator's interface to a pool. Its times are from this host's clock: the store has
// none. Any goroutine may call it; calls are carried out one after another.
type Admin struct {
	c Config

	mu      sync.Mutex
	session Session // for its connection and its request ids
}

var _ interface {
	workerid.Admin
	workerid.StatsAdmin
	workerid.ClockAdmin
	workerid.RestoredAdmin
} = (*Admin)(nil)

// OpenAdmin makes an Admin. It does not connect yet. Only Driver, Kind, Where, Path and Boot are needed,
// and Terms for Init. The Admin owns the Driver.
func OpenAdmin(c Config) (*Admin, error) {
	c = c.withDefaults()
	if c.Driver == nil || c.Boot == nil {
		return nil, errors.New("a driver and a clock are required")
	}
	a := &Admin{c: c, session: c.session(context.Background())}
	long := adminTimes * c.Timeout
	a.session.Driver = limited{c.Driver, long, max(long, c.Reading), context.Background()}
	return a, nil
}

// Close closes the Driver.
func (a *Admin) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.c.Driver.Close()
}

// read reads everything. There may be no pool.
func (a *Admin) read(ctx context.Context) (pool.View, error) {
	if err := a.session.connect(ctx); err != nil {
		return pool.View{}, err
	}
	return a.session.Driver.Load(ctx, a.session.conn)
}

// existing reads a pool, whatever its settings are.
func (a *Admin) existing(ctx context.Context) (pool.View, pool.Meta, error) {
	v, err := a.read(ctx)
	if err != nil {
		return v, pool.Meta{}, err
	}
	if v.Meta == "" {
		return v, pool.Meta{}, fmt.Errorf("%w: there is no %s", ErrNotInitialised, a.session.metaPath())
	}
	m, err := pool.ParseMeta(v.Meta)
	if err != nil {
		err = a.session.unreadable(err)
	}
	return v, m, err
}

// Init makes the pool or changes its settings. It makes every record, and meta last. What is recorded
// of worker ids stays. Running it again completes what was interrupted.
func (a *Admin) Init(ctx context.Context, how workerid.How) (result string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.c.Validate(); err != nil {
		return "", err
	}
	v, err := a.read(ctx)
	if err != nil {
		return "", err
	}
	switch how {
	case workerid.InitWait, workerid.InitNew, workerid.InitReplace, workerid.InitRepair:
	default:
		return "", fmt.Errorf("%s: -how=%s: this kind of store has no such thing", a.c.Kind, how)
	}
	if v.Meta == "" && how != workerid.InitRepair {
		return a.make(ctx, v, how)
	}
	v, m, err := a.existing(ctx)
	if err != nil {
		return "", err
	}
	if how == workerid.InitReplace {
		return a.replace(ctx, v, m)
	}
	if theirs, ours := m.Settings(), a.session.Pool.Settings(); theirs != ours {
		return "", fmt.Errorf("%w: %s says %s; these are %s", workerid.ErrForeignPool, a.session.metaPath(), theirs, ours)
	}
	if how == workerid.InitRepair && len(missing(m, readable(v.Records))) > 0 {
		return done(workerid.InitWaiting, a.change(ctx, v, a.raised(m, v)))
	}
	return workerid.InitPresent, nil
}

func done(result string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return result, nil
}

// make makes a pool that is not there.
func (a *Admin) make(ctx context.Context, v pool.View, how workerid.How) (string, error) {
	m, result := a.raised(a.session.Pool, v), workerid.InitWaiting
	if how == workerid.InitNew {
		for _, w := range slices.Sorted(maps.Keys(v.Records)) {
			if err := a.held(w, v, 0); err != nil {
				return "", fmt.Errorf("%w; without -how new, its worker ids come one lease later", err)
			}
		}
		m.Floor, result = a.session.Now().ID, workerid.InitMade
	}
	return done(result, a.session.makePool(ctx, v.Records, m))
}

// replace changes the settings of a pool whose daemons have stopped.
func (a *Admin) replace(ctx context.Context, v pool.View, m pool.Meta) (string, error) {
	for _, w := range slices.Sorted(maps.Keys(v.Records)) {
		if err := a.held(w, v, a.session.Now().ID); err != nil {
			return "", err
		}
	}
	next := a.session.Pool
	next.Floor, next.Lease = m.Floor, max(m.Lease, next.Lease) // the longer one must be over
	next = a.raised(next, v)
	next.Lease = a.session.Pool.Lease
	return done(workerid.InitWaiting, a.change(ctx, v, next))
}

// held is an ErrHeld if a worker id is held at a time, Unix ms.
func (a *Admin) held(w uint64, v pool.View, at int64) error {
	rec, err := pool.ParseRecord(v.Records[w])
	p, _ := pool.ParsePresence(v.Present[w])
	if err != nil || rec.Owner == "" || rec.Mark < at && p.Owner != rec.Owner {
		return nil
	}
	return fmt.Errorf("%w: %d is, by %s", ErrHeld, w, rec.Owner)
}

// change writes a meta, and then the records that the pool lacks: if that is interrupted, the floor is
// there already.
func (a *Admin) change(ctx context.Context, v pool.View, next pool.Meta) error {
	text := next.String()
	answer, err := a.session.commitChange(ctx, pool.Change{IfMeta: v.Meta, SetMeta: text})
	if err != nil {
		return err
	}
	if !answer.Done {
		return errMade
	}
	return a.session.makeRecords(ctx, text, next, v.Records, true)
}

// raised is a meta whose floor is above all windows that may have been forgotten.
func (a *Admin) raised(m pool.Meta, v pool.View) pool.Meta {
	return a.session.Rules.Raise(m, highest(v.Records), a.session.token(), a.session.Now())
}

func readable(records map[uint64]string) func(uint64) bool {
	return func(w uint64) bool {
		_, err := pool.ParseRecord(records[w])
		return err == nil
	}
}

// List lists the worker ids, in the order in which they are given out.
func (a *Admin) List(ctx context.Context) ([]workerid.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, m, err := a.existing(ctx)
	if err != nil {
		return nil, err
	}
	return a.leases(v, m), nil
}

func (a *Admin) leases(v pool.View, m pool.Meta) []workerid.Lease {
	now := a.session.Now().ID
	all := make([]workerid.Lease, 0, len(v.Records))
	starts := map[uint64]int64{}
	for w := m.Min; w <= m.Max; w++ {
		all = append(all, a.lease(w, v, m, now))
		starts[w] = never
		if rec, err := pool.ParseRecord(v.Records[w]); err == nil { // what ended long ago is alike to daemons
			starts[w] = max(rec.Mark, m.Floor, now-m.Lease-a.c.MaxSkew.Milliseconds())
		}
	}
	slices.SortStableFunc(all, func(x, y workerid.Lease) int { return cmp.Compare(starts[x.Worker], starts[y.Worker]) })
	return all
}

// never is when a worker id becomes available that must be repaired first: the last time that JSON has.
const never = 253402300799999

func (a *Admin) lease(w uint64, v pool.View, m pool.Meta, now int64) workerid.Lease {
	l := workerid.Lease{Worker: w}
	rec, err := pool.ParseRecord(v.Records[w])
	if err != nil {
		l.ExpireAt, l.Using = date(never), true
		l.Note = fmt.Sprintf("%s: %v: `katsubushi lease init -how repair`", a.session.recordPath(w), err)
		if v.Records[w] == "" {
			l.Note = fmt.Sprintf("there is no %s: `katsubushi lease init -how repair`", a.session.recordPath(w))
		}
		return l
	}
	from := max(rec.Mark, m.Floor)
	l.Owner, l.Using = rec.Owner, from >= now
	if l.ExpireAt = time.UnixMilli(0).UTC(); rec.Token != "" || from >= now {
		l.ExpireAt, l.TTL = date(from), float64(from-now)/1000
	}
	if rec.Owner != "" {
		l.From, l.Until = date(rec.Lo), date(rec.Mark)
	}
	if p, err := pool.ParsePresence(v.Present[w]); err == nil && p.Owner == rec.Owner {
		l.Using = true
		if p.Addr != "" {
			l.Note = "at " + p.Addr
		}
	}
	if far := now + m.Lease + a.c.MaxSkew.Milliseconds(); rec.Mark > far {
		l.Note = "usable from " + date(rec.Mark).Format(time.RFC3339) + ": a clock was wrong"
	} else if m.Floor > far+m.Epsilon && l.Note == "" {
		l.Note = "usable from " + date(m.Floor).Format(time.RFC3339) + ": a clock was wrong; `katsubushi lease reset-clock`"
	}
	return l
}

func date(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(min(ms, never)).UTC()
}

// Release ends a lease for its owner. If the owner is alive, it uses up its window and gets another
// worker id.
func (a *Admin) Release(ctx context.Context, worker uint64) (workerid.Freed, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range attempts {
		v, m, err := a.existing(ctx)
		if err != nil {
			return workerid.Freed{}, err
		}
		if worker < m.Min || worker > m.Max {
			return workerid.Freed{}, fmt.Errorf("%s: the pool has no worker id %d, but %d to %d", a.c.Kind, worker, m.Min, m.Max)
		}
		rec, err := pool.ParseRecord(v.Records[worker])
		if err != nil {
			return workerid.Freed{}, fmt.Errorf("%s: %w: `katsubushi lease init -how repair`", a.session.recordPath(worker), err)
		}
		freed := workerid.Freed{Owner: rec.Owner, ExpireAt: date(rec.Mark), Until: date(rec.Mark)}
		next := pool.Record{Mark: rec.Mark, Lo: rec.Lo, Token: a.session.token()}
		answer, err := a.session.commitChange(ctx, pool.Change{
			IfMeta: v.Meta, If: map[uint64]string{worker: v.Records[worker]}, Set: map[uint64]string{worker: next.String()},
		})
		if err != nil || answer.Done {
			return freed, err
		}
	}
	return workerid.Freed{}, errBusy
}
