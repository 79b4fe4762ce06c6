package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A Pool is the operator's interface to a pool of worker ids. Its times are from Redis's clock. Any
// goroutine may use it; calls are carried out one after another. Their errors are those of a Store.
type Pool struct {
	c    Config
	wire *wire
}

// OpenPool makes a Pool. It does not connect yet. Only Config's URL is required, except for Init,
// which needs everything that a Store needs.
func OpenPool(c Config) (*Pool, error) {
	c.Terms = c.WithDefaults()
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	c.AllowEviction, c.Replicas = true, 0 // an operator must be able to look at any pool
	return &Pool{c, newWire(c, t)}, nil
}

// Close closes the connection.
func (p *Pool) Close() error { return p.wire.Close() }

// terms are those of an operator, who is not part of the pool and uses the pool's lease.
func (p *Pool) terms() script.Terms {
	t := p.c.terms()
	t.Fingerprint, t.Lease, t.MaxLease, t.Replicas, t.Min, t.Max = "", 0, 0, -1, 1, 0
	if p.c.HoldRaus != "" {
		t.MaxLease = p.c.maxLease().Milliseconds()
	}
	return t
}

func ask[T any](ctx context.Context, p *Pool, c script.Call, read func(any) (T, error)) (T, error) {
	return redislink.Take(ctx, p.wire.Wire, func(*redislink.Link) (v T, _ func(), err error) {
		reply, _, err := p.wire.run(c)
		if errors.Is(err, ErrNotInitialised) {
			err = p.notThere(err)
		}
		if err != nil {
			return v, nil, err
		}
		v, err = read(reply)
		return v, nil, err
	})
}

// How tells Init what to do. "One lease later" means Lease + Epsilon.
type How = workerid.How

// The ways and results of Init, see workerid. The other program that had the pool is yaraus.
const (
	Wait     = workerid.InitWait
	New      = workerid.InitNew
	Replace  = workerid.InitReplace
	Migrated = workerid.InitMigrated

	Made     = workerid.InitMade
	Waiting  = workerid.InitWaiting
	Adopted  = workerid.InitAdopted
	Finished = workerid.InitFinished
	Present  = workerid.InitPresent
)

// Init makes a pool or changes its settings. New first listens for three heartbeats: if a pool was
// lost after all, a daemon that still holds a worker id makes it again, and Init returns Present.
// New does not notice a daemon that is stopped or cut off just then, whose ids could then be issued
// again; use Wait if there may be one. This host's clock and Redis's must agree, as for a daemon.
// Config needs everything that a Store needs.
func (p *Pool) Init(ctx context.Context, how How) (result string, err error) {
	if err := p.c.check(); err != nil {
		return "", err
	}
	if how == workerid.InitRepair {
		return "", errors.New("redis: daemons repair a pool by themselves; if none is left, lease init without " +
			"-how does it")
	}
	if how == New {
		if err := p.listen(ctx, 3*workerid.HeartbeatOf(p.c.Lease)); err != nil {
			return "", err
		}
	}
	return p.initialise(ctx, how)
}

func (p *Pool) initialise(ctx context.Context, how How) (result string, err error) {
	t := p.c.terms()
	t.Replicas = -1
	result, err = ask(ctx, p, script.Init{Terms: t, Now: p.c.Now(), RequestID: newName(), How: string(how)},
		script.ReadInit)
	if errors.Is(err, workerid.ErrForeignPool) {
		err = fmt.Errorf("%w; these are %s", err, t.Fingerprint)
	}
	return result, err
}

// listen returns when there is a pool, or after d without one.
func (p *Pool) listen(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		d, err := p.read(ctx)
		if err != nil {
			return err
		}
		if len(d.IDs) > 0 && d.Meta["hist"] != "" {
			return nil
		}
		select {
		case <-look.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Pool) read(ctx context.Context) (script.Dump, error) {
	return ask(ctx, p, script.Read{Terms: p.terms().Lenient()}, script.ReadDump)
}

func (p *Pool) notThere(err error) error { return fmt.Errorf("%w%s", err, p.wire.looked()) }

// existing returns what exists of the pool, or ErrNotInitialised if there is nothing, for example
// because the name is misspelt. Anything written there would look like the rest of a lost pool.
func (p *Pool) existing(ctx context.Context) (script.Dump, error) {
	d, err := p.read(ctx)
	if err == nil && len(d.IDs) == 0 && len(d.Meta) == 0 {
		err = p.notThere(script.Refusal{Code: "NOINIT"})
	}
	return d, err
}

// Stats are the pool's counters, with yaraus's names and meanings.
type Stats struct {
	ClientIDCount           int64 `json:"client_id_count"`            // owners that asked for the first time
	GetIDCount              int64 `json:"client_get_id_count"`        // acquisitions
	GetIDSuccess            int64 `json:"client_get_id_success"`      // those that got a worker id
	GetIDNoAvailableID      int64 `json:"get_id_no_available_id"`     // those that did not
	ExtendTTLCount          int64 `json:"extend_ttl_count"`           // extensions, of one lane each
	ExtendTTLSuccess        int64 `json:"extend_ttl_success"`         // those that succeeded
	ExtendTTLOwnershipError int64 `json:"extend_ttl_ownership_error"` // those whose lease was lost
	ExtendTTLExpireWarning  int64 `json:"extend_ttl_expire_warning"`  // those that succeeded late
	UnusingIDs              int64 `json:"unusing_ids"`                // worker ids that are available
	UsingIDs                int64 `json:"using_ids"`                  // worker ids that are not
	// the longest time until one of these is available, in s
	UsingTTLMax float64 `json:"using_ttl_max"`
	UsingTTLMid float64 `json:"using_ttl_mid"` // the median
	UsingTTLMin float64 `json:"using_ttl_min"` // the shortest

	Min uint64 `json:"min"`
	Max uint64 `json:"max"`
	// the settings of the pool's daemons; empty: no daemon of ours uses it
	Fingerprint string `json:"fingerprint"`
	Held        int64  `json:"held"` // worker ids that have an owner and a lease that has not ended
	// no worker id is given out before, as grants may have been forgotten; zero or past: no wait
	WaitsUntil time.Time `json:"waits_until,omitzero"`
	ClockBack  float64   `json:"clock_back"` // how far Redis's clock is behind what it was, in s
	Yaraus     bool      `json:"yaraus"`     // yaraus's clients may use the pool as well
}

// Stats reads the counters.
func (p *Pool) Stats(ctx context.Context) (Stats, error) {
	d, err := p.read(ctx)
	if err != nil {
		return Stats{}, err
	}
	if len(d.IDs) == 0 {
		return Stats{}, p.notThere(script.Refusal{Code: "NOINIT"})
	}
	n := func(h map[string]string, name string) int64 {
		v, _ := strconv.ParseInt(h[name], 10, 64)
		return v
	}
	s := Stats{
		ClientIDCount: n(d.Stats, "client_id_count"), GetIDCount: n(d.Stats, "get_id_count"),
		GetIDSuccess:       n(d.Stats, "get_id_success"),
		GetIDNoAvailableID: n(d.Stats, "get_id_no_available_id"), ExtendTTLCount: n(d.Stats, "extend_ttl_count"),
		ExtendTTLSuccess: n(d.Stats, "extend_ttl_success"), ExtendTTLOwnershipError: n(d.Stats, "extend_ttl_ownership_error"),
		ExtendTTLExpireWarning: n(d.Stats, "extend_ttl_expire_warning"),
		Min:                    uint64(n(d.Stats, "min")), Max: uint64(n(d.Stats, "max")),
		Fingerprint: d.Meta["fingerprint"], WaitsUntil: moment(n(d.Meta, "floor")), Yaraus: d.Meta["yaraus"] == "1",
		ClockBack: max(0, float64(n(d.Meta, "seen")-d.Now)/1000),
	}
	var left []float64 // in ascending order
	for _, l := range leases(d) {
		if !l.Using {
			s.UnusingIDs++
			continue
		}
		s.UsingIDs++
		left = append(left, l.TTL)
		if l.Owner != "" {
			s.Held++
		}
	}
	if k := len(left); k > 0 {
		s.UsingTTLMin, s.UsingTTLMid, s.UsingTTLMax = left[0], left[k/2], left[k-1]
	}
	return s, nil
}

// List lists the worker ids, in the order in which they are given out.
func (p *Pool) List(ctx context.Context) ([]workerid.Lease, error) {
	d, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(d.IDs) == 0 {
		return nil, p.notThere(script.Refusal{Code: "NOINIT"})
	}
	return leases(d), nil
}

func leases(d script.Dump) []workerid.Lease {
	all := make([]workerid.Lease, 0, len(d.Order))
	for _, w := range d.Order {
		at := int64(math.Round(max(0, min(d.IDs[w]*1000, lastMoment))))
		l := workerid.Lease{Worker: w, Owner: d.Clients[w], ExpireAt: time.UnixMilli(at).UTC(), Using: at >= d.Now}
		if at != 0 {
			l.TTL = float64(at-d.Now) / 1000
		}
		if mark, _, lo, err := script.ParseRecord(d.HighWater[w]); err == nil && l.Owner != "" {
			l.From, l.Until = moment(lo), moment(mark)
		}
		all = append(all, l)
	}
	return all
}

// lastMoment is the last Unix ms that JSON has a time for.
const lastMoment = 253402300799999

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(min(ms, lastMoment)).UTC()
}

// Release ends a lease for its owner. If the owner is alive, it uses up its window and gets another
// worker id. The released one is available when that window is over. This host's clock and Redis's
// must agree, as for a daemon.
func (p *Pool) Release(ctx context.Context, worker uint64) (workerid.Freed, error) {
	f, err := ask(ctx, p, script.Free{Terms: p.terms(), Now: p.c.Now(), RequestID: newName(), Worker: worker},
		script.ReadFreed)
	if errors.Is(err, ErrNotInitialised) {
		if d, readErr := p.read(ctx); readErr == nil && len(d.IDs) > 0 {
			err = fmt.Errorf("redis: the pool has no worker id %d", worker)
		}
	}
	return workerid.Freed{Owner: f.Owner, ExpireAt: moment(f.Ended), Until: moment(max(f.HighWater, 0))}, err
}

// Replicas says how many replicas there are and how many there must be.
type Replicas struct {
	Needed    int       `json:"needed"` // how many must have a grant; −1: each daemon's own setting applies
	Connected []Replica `json:"connected"`
}

// A Replica is a connected replica.
type Replica struct {
	Addr  string `json:"addr"`
	State string `json:"state"` // online, or still loading data
	Lag   int64  `json:"lag"`   // seconds since its last message
}

// Replicas reads the state of the replicas.
func (p *Pool) Replicas(ctx context.Context) (Replicas, error) {
	d, err := p.existing(ctx)
	r := Replicas{Needed: -1, Connected: []Replica{}}
	if n, bad := strconv.Atoi(d.Meta["replicas"]); bad == nil {
		r.Needed = n
	}
	for line := range strings.Lines(d.Info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, ok := strings.CutPrefix(name, "slave"); !ok || strings.Trim(n, "0123456789") != "" || n == "" {
			continue
		}
		fields := map[string]string{}
		for f := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(f, "=")
			fields[k] = v
		}
		lag, _ := strconv.ParseInt(fields["lag"], 10, 64)
		r.Connected = append(r.Connected, Replica{fields["ip"] + ":" + fields["port"], fields["state"], lag})
	}
	return r, err
}

// SetReplicas sets for all daemons of the pool how many replicas must have a grant, whatever their own
// setting. −1 makes their own settings apply. It takes effect with each daemon's next call.
func (p *Pool) SetReplicas(ctx context.Context, n int) error {
	if _, err := p.existing(ctx); err != nil {
		return err
	}
	_, err := ask(ctx, p, script.SetReplicas{Terms: p.terms(), Number: n}, func(any) (any, error) { return nil, nil })
	return err
}

// ClockReset is the result of ResetClock.
type ClockReset struct {
	Now        time.Time `json:"now"`                  // Redis's clock, which counts from here on
	Was        time.Time `json:"was,omitzero"`         // the latest time that it had shown
	WaitsUntil time.Time `json:"waits_until,omitzero"` // no worker id is given out before; holders keep theirs
}

// ResetClock accepts Redis's clock after it was set back. If it was not set back, the error is
// ErrClockSteady. Worker ids that were granted for the future that the clock had shown stay unusable
// until that time. A clock that differs from this host's by more than MaxSkew is refused, as daemons
// refuse it too: it will be corrected, and that would end the wait too early.
func (p *Pool) ResetClock(ctx context.Context) (ClockReset, error) {
	if _, err := p.existing(ctx); err != nil {
		return ClockReset{}, err
	}
	r, err := ask(ctx, p,
		script.ResetClock{Terms: p.terms(), Now: p.c.Now(), RequestID: newName(), Unsure: p.c.Lease.Milliseconds()},
		script.ReadClockReset)
	return ClockReset{moment(r.Now), moment(r.Seen), moment(r.Floor)}, err
}
