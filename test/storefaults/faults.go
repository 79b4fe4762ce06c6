package storefaults

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// fill starts as many daemons as the pool has worker ids, and waits until they serve.
func (w *World) fill() (all []*Daemon) {
	w.Helper()
	for range w.terms.Max {
		all = append(all, w.Start())
	}
	w.serve(all...)
	return all
}

// bridged lets something happen to the servers that leases outlive: everybody keeps its worker id, and
// issues all the time.
func (w *World) bridged(all []*Daemon, fault func()) {
	w.Helper()
	var had []uint64
	for _, d := range all {
		had = append(had, d.Worker())
	}
	fault()
	w.Extended(all...)
	for i, d := range all {
		if d.MustNotRefuse(); d.Worker() != had[i] {
			w.Errorf("%s had worker id %d and has %d", d.name, had[i], d.Worker())
		}
	}
}

func (w *World) follower() int { return (w.Leader() + 1) % len(w.Hosts()) }

// ServerStops: SIGSTOP of a server that does not lead, until the daemons go on with the others.
func (w *World) ServerStops() { w.stops(w.follower()) }

// LeaderStops: SIGSTOP of the leader.
func (w *World) LeaderStops() { w.stops(w.Leader()) }

func (w *World) stops(i int) {
	w.bridged(w.fill(), func() {
		w.Pause(i)
		w.Extended(w.daemons...)
		w.Resume(i)
	})
}

// ServerKilled: kill -9 of a server that does not lead, and its restart.
func (w *World) ServerKilled() { w.killed(w.follower()) }

// LeaderKilled: kill -9 of the leader, and its restart.
func (w *World) LeaderKilled() { w.killed(w.Leader()) }

func (w *World) killed(i int) {
	w.bridged(w.fill(), func() {
		w.Kill(i)
		w.Extended(w.daemons...)
		w.Launch(i)
		w.Ready()
	})
}

// AllRestart: kill -9 of all servers, and their restart.
func (w *World) AllRestart() {
	w.bridged(w.fill(), func() {
		w.each(w.Kill)
		w.each(w.Launch)
		w.Ready()
	})
}

func (w *World) each(f func(i int)) {
	for i := range w.Hosts() {
		f(i)
	}
}

// MajorityStops: SIGSTOP of all servers but one until every lease is over.
func (w *World) MajorityStops() { w.majority(w.Pause, w.Resume) }

// MajorityKilled: kill -9 of all servers but one until every lease is over.
func (w *World) MajorityKilled() { w.majority(w.Kill, w.Launch) }

func (w *World) majority(begin, end func(i int)) {
	all := w.fill()
	stays := w.Leader()
	others := func(f func(i int)) {
		w.each(func(i int) {
			if i != stays {
				f(i)
			}
		})
	}
	others(begin)
	w.Until("all windows are used up", func() bool {
		for _, d := range all {
			if !d.Is(workerid.Exhausted, "") && !d.Is(workerid.Acquiring, "") {
				return false
			}
		}
		return true
	})
	others(end)
	w.serve(all...)
}

// ExpiryWhileStopped: SIGSTOP of a daemon until the store has ended its session. Nobody has come
// meanwhile, so it keeps its worker id.
func (w *World) ExpiryWhileStopped() {
	d := w.Spawn()
	w.serve(d)
	had := d.Worker()
	d.Pause()
	w.Until("the presence is gone", func() bool { return len(w.View().Present) == 0 })
	d.Resume()
	w.Extended(d)
	if d.Worker() != had {
		w.Errorf("it had worker id %d and has %d", had, d.Worker())
	}
	w.Until("the presence is there again", func() bool { return len(w.View().Present) == 1 })
}

// ExpiryWithSuccessor: the same, and another daemon takes the only worker id. On a busy machine a short
// lease may also end by itself, so either of them may hold it at any time.
func (w *World) ExpiryWithSuccessor() {
	one, two := w.Spawn(), w.Spawn()
	roles := func() (holder, other *Daemon) {
		w.Until("one serves, and the other asks in vain", func() bool {
			for _, pair := range [][2]*Daemon{{one, two}, {two, one}} {
				if holder, other = pair[0], pair[1]; holder.Serves() && other.Is(workerid.Acquiring, workerid.ErrNoID.Error()) {
					return true
				}
			}
			return false
		})
		return holder, other
	}
	d, successor := roles()
	had := d.lanes()[0].Lo
	d.Pause()
	w.serve(successor)
	d.Resume()
	w.Until("the lease is lost", func() bool {
		return d.Is(workerid.Acquiring, workerid.ErrNoID.Error()) || d.lanes()[0].Lo > had
	})
	holder, other := roles()
	holder.Stop()
	w.serve(other)
}

// PartitionOfRequests: what a daemon sends is held back for a while in front of all servers.
func (w *World) PartitionOfRequests() {
	w.partition((*redistest.Proxy).Requests)
}

// PartitionOfAnswers is the other direction.
func (w *World) PartitionOfAnswers() {
	w.partition((*redistest.Proxy).Answers)
}

func (w *World) partition(fault func(p *redistest.Proxy, m redistest.Mode)) {
	var proxies []*redistest.Proxy
	var hosts []string
	for i := range w.Hosts() {
		proxies = append(proxies, w.Proxy(i))
		hosts = append(hosts, proxies[i].Addr())
	}
	cutOff, other := w.Start(hosts...), w.Start()
	all := []*Daemon{cutOff, other}
	w.serve(all...)
	set := func(m redistest.Mode) {
		for _, p := range proxies {
			fault(p, m)
		}
	}
	w.bridged(all, func() {
		set(redistest.Hold)
		w.Until("it is noticed", func() bool { return cutOff.Is(workerid.Degraded, "") })
		w.Extended(other)
		set(redistest.Pass)
	})
}

// AnswerLost: the answers to an extension do not come, though it is carried out.
func (w *World) AnswerLost() {
	p := w.Proxy(0)
	d := w.Start(p.Addr())
	w.serve(d)
	for range 3 {
		w.bridged([]*Daemon{d}, func() {
			for lost := false; !lost; w.serve(d) {
				before := w.View().Records[d.Worker()]
				carriedOut := func() bool { return w.View().Records[d.Worker()] != before }
				p.Answers(redistest.Drop)
				// On a busy machine the daemon may just have lost its connection. It gets none without answers.
				w.Until("an extension is carried out, or cannot be", func() bool {
					return carriedOut() || d.Is(workerid.Degraded, "")
				})
				lost = carriedOut()
				p.Cut()
				p.Answers(redistest.Pass)
			}
		})
	}
}

// AcquisitionLost: the answer to an acquisition does not come. The next one finds it.
func (w *World) AcquisitionLost() {
	l, hears := &losesAnswers{}, w.Stores.Driver
	w.Stores.Driver = func(s cas.Settings, t cas.Target, timeout time.Duration, lasting bool) cas.Driver {
		return deafDriver{hears(s, t, timeout, lasting), l}
	}
	d := w.Start()
	w.serve(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil || l.next == nil {
		w.Fatalf("lost: %v, found: %v", l.first, l.next)
	}
	// Later than that its window may be over, so that any other worker id is as good.
	if gap := l.nextAt.Sub(l.firstAt); gap < w.terms.Lease/2 && !slices.Equal(l.first, l.next) {
		w.Errorf("the answer about %v was lost, and %v later the next call was about %v", l.first, gap, l.next)
	}
}

// losesAnswers loses that to the first acquisition, and remembers the next one.
type losesAnswers struct {
	mu              sync.Mutex
	first, next     []uint64 // worker ids
	firstAt, nextAt time.Time
}

type deafDriver struct {
	cas.Driver
	l *losesAnswers
}

func (d deafDriver) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	a, err := d.Driver.Commit(ctx, conn, c)
	l := d.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if ids := slices.Sorted(maps.Keys(c.Set)); len(ids) == 0 {
		return a, err
	} else if l.first != nil && l.next == nil {
		l.next, l.nextAt = ids, time.Now()
	} else if l.first == nil && err == nil && a.Done {
		l.first, l.firstAt = ids, time.Now()
		return cas.Answer{}, errors.New("nobody hears the answer")
	}
	return a, err
}

// MassStart: as many daemons as there are worker ids start at once.
func (w *World) MassStart() {
	w.terms.Heartbeat = 2 * time.Second // the default
	var all []*Daemon
	began := time.Now()
	for range w.terms.Max {
		all = append(all, w.Start())
	}
	var half time.Duration                     // until half of them did
	w.Until("all of them issue", func() bool { // on a busy machine hardly all of them are answered in time at once
		issuing := 0
		for _, d := range all {
			if d.lanes()[0].State.Issues() {
				issuing++
			}
		}
		if half == 0 && issuing*2 >= len(all) {
			half = time.Since(began)
		}
		return issuing == len(all)
	})
	w.Logf("%d daemons that start at once: half of them issue after %.1f s, all after %.1f s; they watch for %v",
		len(all), half.Seconds(), time.Since(began).Seconds(), pool.WatchOf(w.terms.Heartbeat, time.Second))
	had := map[uint64]bool{}
	for _, d := range all {
		had[d.Worker()] = true
	}
	if len(had) != len(all) {
		w.Errorf("%d worker ids for %d daemons", len(had), len(all))
	}
}

// FiveForThree: 5 daemons want 3 worker ids. Whoever stops makes room.
func (w *World) FiveForThree() {
	var all []*Daemon
	for range 5 {
		all = append(all, w.Start())
	}
	var serving []*Daemon
	three := func() bool {
		serving = slices.DeleteFunc(slices.Clone(all), func(d *Daemon) bool { return !d.Serves() })
		return len(serving) == 3
	}
	for range 2 {
		w.Until("three serve", three)
		d := serving[0]
		d.Stop()
		w.Until("it is sealed", func() bool { return d.Is(workerid.Sealed, "") })
	}
	w.Until("three serve", three)
}

// TwoLanes: the operator ends the lease of one of a daemon's lanes. The other one goes on.
func (w *World) TwoLanes() {
	d := w.StartWith(2, 0)
	w.serve(d)
	first, second := d.lanes()[0].Worker, d.lanes()[1].Worker
	w.operator("lease release", func(ctx context.Context, a workerid.Admin) error {
		_, err := a.Release(ctx, first)
		return err
	})
	w.Until("the lane has another worker id", func() bool { return d.Serves() && d.lanes()[0].Worker != first })
	d.MustNotRefuse()
	if now := d.lanes()[1].Worker; now != second {
		w.Errorf("the other lane had %d and has %d", second, now)
	}
	w.Extended(d)
}

// Clone: a copy of a process's memory goes on beside the original, over a connection of its own.
func (w *World) Clone() {
	session := func() *cas.Session {
		d, err := w.driver(w.settings(w.Hosts()))
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { d.Close() })
		return &cas.Session{
			Driver: d, Rules: pool.Rules{W: pool.WatchOf(w.terms.Heartbeat, time.Second),
				MaxSkew: w.terms.MaxSkew.Milliseconds()},
			Pool: w.meta(),
			Now: func() pool.Moment {
				now := time.Now().UnixMilli()
				return pool.Moment{Boot: time.Duration(boot()), ID: now, Wall: now}
			},
		}
	}
	s := session()
	var g workerid.Grant
	w.Until("it has a worker id", func() (ok bool) {
		var err error
		g, err = s.Acquire(w.Context(), workerid.Request{Owner: "owner", Min: 1, Max: w.terms.Max})
		return err == nil
	})
	s.Heard(g)
	clone := copied.Of(s)
	clone.Driver = session().Driver
	extend := func(s *cas.Session) (err error) {
		w.Until("an extension is answered", func() bool {
			r, failed := s.Extend(w.Context(), []workerid.Grant{g})
			if failed != nil {
				return false
			}
			err = r[0].Err
			return !errors.Is(err, workerid.ErrNoneYet)
		})
		return err
	}
	if err := extend(s); err != nil {
		w.Error(err)
	}
	if err := extend(clone); !errors.Is(err, workerid.ErrCloned) {
		w.Errorf("the copy: %v", err)
	}
	if err := extend(s); err != nil {
		w.Error(err)
	}
}
