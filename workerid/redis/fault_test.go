package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

const soon = 300 * time.Millisecond // a timeout for calls that get no answer

func (w *world) proxied() (*redistest.Proxy, *daemon) {
	p := redistest.NewProxy(w, w.server.Addr())
	return p, w.daemon(w.through(p))
}

// uncertain checks that an error leaves open whether the call was carried out.
func (w *world) uncertain(err error) {
	w.Helper()
	if err == nil || certain(err) || errors.Is(err, workerid.ErrLost) || errors.Is(err, workerid.ErrUnconfirmed) {
		w.Fatalf("error is %v", err)
	}
}

// record is what Redis has about a worker id, to see that a call was carried out.
func (w *world) record(member string) string {
	s, _ := w.server.Do("HGET", w.key("hw"), member).(string)
	return s
}

// unheard makes a call whose answer never comes, while the proxy drops answers. Once the call is carried
// out, the connection is cut.
func (w *world) unheard(p *redistest.Proxy, call func(time.Duration) error, carriedOut func() bool) {
	w.Helper()
	p.Answers(redistest.Drop)
	failed := make(chan error, 1)
	go func() { failed <- call(redislink.Patience) }() // with less, a busy machine might not even send it
	w.server.Until("the call is carried out", carriedOut)
	p.Cut()
	w.uncertain(<-failed)
	p.Answers(redistest.Pass)
	p.Cut()
}

func TestReplyLostAfterExecution(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	w.daemon().acquire() // and Redis knows the script
	p, d := w.proxied()
	d.extendNothing()
	w.unheard(p, d.tryAcquire, func() bool { return w.record("A2") != "" })
	for range 5 {
		if err := d.tryAcquire(redislink.Patience); err == nil || certain(err) {
			break
		}
	}
	if d.grant.Worker != 2 {
		t.Errorf("what was granted unheard is not found again: %+v", d.grant)
	}
	for range 3 { // and extensions
		before := w.record("A2")
		w.advance(1000)
		w.unheard(p, d.tryExtend, func() bool { return w.record("A2") != before })
		d.extend()
	}
}

// The network holds, loses or delays messages between a daemon and Redis, in either direction. No
// extension or acquisition gets lost, and none is carried out twice.
func TestEachDirectionHoldsDropsAndDelays(t *testing.T) {
	for name, fault := range map[string]func(p *redistest.Proxy, on bool){
		"requests held":    func(p *redistest.Proxy, on bool) { p.Requests(mode(redistest.Hold, on)) },
		"answers held":     func(p *redistest.Proxy, on bool) { p.Answers(mode(redistest.Hold, on)) },
		"requests dropped": func(p *redistest.Proxy, on bool) { p.Requests(mode(redistest.Drop, on)) },
		"answers dropped":  func(p *redistest.Proxy, on bool) { p.Answers(mode(redistest.Drop, on)) },
		"requests delayed": func(p *redistest.Proxy, on bool) { p.DelayRequests(delay(on)) },
		"answers delayed":  func(p *redistest.Proxy, on bool) { p.DelayAnswers(delay(on)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			holder := w.holders(1)[0]
			p, d := w.proxied()
			d.memory, d.owner, d.grant = *holder.remembered(), holder.owner, holder.grant
			newcomer := w.daemon(w.through(p))
			newcomer.extendNothing()
			d.extend()
			fault(p, true)
			w.advance(1000)
			w.uncertain(d.tryExtend(soon))
			w.uncertain(newcomer.tryAcquire(soon))
			w.uncertain(d.tryExtend(soon))
			fault(p, false)
			if strings.HasSuffix(name, "dropped") {
				p.Cut() // nobody waits for what will not come
			}
			d.extend()
			if err := newcomer.settleAcquire(); err != nil {
				t.Fatal(err)
			}
			newcomer.extend()
			if owners := w.server.Do("HLEN", w.key("clients")); owners != int64(2) {
				t.Errorf("2 daemons hold %v worker ids", owners)
			}
		})
	}
}

func mode(m redistest.Mode, on bool) redistest.Mode {
	if on {
		return m
	}
	return redistest.Pass
}

func delay(on bool) time.Duration {
	if on {
		return soon * 4 // so that the call has ended by then on a busy machine, too
	}
	return 0
}

// extendNothing connects.
func (d *daemon) extendNothing() {
	if err := d.tryExtend(redislink.Patience); !errors.Is(err, workerid.ErrLost) {
		d.Fatal(err)
	}
}

// A request that arrives after everybody has given it up does no harm, however late it is.
func TestLateExtendAfterRelease(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	w.init(New)
	w.advance(1)
	p, d := w.proxied()
	d.acquire()
	other := d.copied() // the same process over a new connection
	p.Requests(redistest.Hold)
	w.uncertain(d.sendExtend(p))
	if err := other.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	next := w.daemon()
	next.acquire()
	before := w.record("A1")
	count := w.server.Do("HGET", w.key("stats"), "extend_ttl_count")
	p.Requests(redistest.Pass)
	w.server.Until("the late extension arrives", func() bool {
		return w.server.Do("HGET", w.key("stats"), "extend_ttl_count") != count
	})
	if now := w.record("A1"); now != before {
		t.Errorf("the record was %q and is %q", before, now)
	}
	next.extend()
}

// An extension is answered long after another daemon got the lease. What it grants lies below the
// other daemon's window.
func TestReplyInFlightAfterLoss(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	holder := w.holders(1)[0]
	p, d := w.proxied()
	d.memory, d.owner, d.grant = *holder.remembered(), holder.owner, holder.grant
	d.extend()
	before := w.record("A1")
	p.Answers(redistest.Hold)
	w.advance(5000)
	answered := make(chan error)
	go func() { answered <- d.tryExtend(redislink.Patience) }()
	w.server.Until("the extension is carried out", func() bool { return w.record("A1") != before })
	if _, err := w.pool().Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.advance(lease + 1)
	next := w.daemon()
	next.acquire()
	w.advance(lease)
	next.extend()
	p.Answers(redistest.Pass)
	if err := <-answered; err != nil || d.grant.Hi >= next.grant.Lo {
		t.Errorf("%+v, %v", d.grant, err)
	}
	w.want(d.settle(), workerid.ErrLost)
	next.extend()
}

// A daemon that gives a worker id back can neither report less than its predecessor issued, nor
// more than it was granted.
func TestReleaseBelowTheWindow(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	first := w.holders(1)[0]
	if err := first.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	d := w.daemon()
	d.acquire()
	d.extend()
	for _, last := range []int64{d.grant.Lo - 2, 0, d.grant.Hi + 1} {
		w.want(d.copied().release(last), workerid.ErrLost)
	}
	if err := d.release(d.grant.Lo - 1); err != nil { // nothing at all
		t.Fatal(err)
	}
	w.advance(1)
	next := w.daemon()
	if next.acquire(); next.grant.Lo != w.now() {
		t.Errorf("%+v after %+v, which issued nothing", next.grant, d.grant)
	}
}

// Containers: every host has the same name, and the daemon has the same pid everywhere.
func TestIdenticalHostNames(t *testing.T) {
	w := newWorld(t)
	all := w.holders(3) // all of them in this process
	held := map[uint64]bool{}
	for i, d := range all {
		name, next := d.owner[:strings.LastIndexByte(d.owner, '/')], all[(i+1)%3].owner
		if held[d.grant.Worker] = true; !strings.HasPrefix(next, name+"/") || next == d.owner {
			t.Errorf("%s and %s", d.owner, next)
		}
	}
	if len(held) != 3 {
		t.Errorf("three daemons hold %d worker ids", len(held))
	}
	if err := all[0].release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.keepTheirIDs(all[1:])
}

// All daemons of a fleet start at once, without a pool. One of them makes the pool, and each gets a
// worker id.
func TestMassStart(t *testing.T) {
	const fleet = 200
	w := newWorld(t)
	w.config.Max, w.config.AutoInit = fleet, true
	all := make([]*daemon, fleet)
	for i := range all {
		all[i] = w.daemon()
	}
	var repeated atomic.Bool // some request, because Redis was late
	acquire := func(d *daemon) error {
		ctx, cancel := within(redislink.Patience)
		defer cancel()
		err := d.acquireIn(ctx)
		if err == nil || certain(err) {
			return err
		}
		repeated.Store(true)
		return d.settleAcquire()
	}
	together := func(f func(d *daemon)) {
		var wg sync.WaitGroup
		for _, d := range all {
			wg.Go(func() { f(d) })
		}
		wg.Wait()
	}
	together(func(d *daemon) {
		if err := acquire(d); !errors.Is(err, workerid.ErrNoID) {
			t.Errorf("error is %v", err)
		}
	})
	w.advance(long + 1)
	together(func(d *daemon) {
		if err := acquire(d); err != nil {
			t.Error(err)
		}
	})
	together(func(d *daemon) {
		if err := d.settle(); err != nil {
			t.Error(err)
		}
	})
	held := map[uint64]bool{}
	for _, d := range all {
		held[d.grant.Worker] = true
	}
	if s, err := w.pool().Stats(t.Context()); err != nil || len(held) != fleet || s.Held != fleet ||
		!repeated.Load() && (s.GetIDSuccess != fleet || s.ClientIDCount != fleet) {
		t.Errorf("%d worker ids for %d daemons: %+v, %v", len(held), fleet, s, err)
	}
}

func TestMemoryClone(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	c := d.copied()
	w.advance(1000)
	d.extend()
	w.want(c.settle(), workerid.ErrCloned)
	d.extend()
	// The one that comes first goes on, whichever it is; and a lost answer does not make it a clone.
	c = d.copied()
	w.advance(1000)
	c.extend()
	w.want(d.settle(), workerid.ErrCloned)
}

func TestPartition(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	p, d := w.proxied()
	d.acquire()
	p.Requests(redistest.Hold)
	p.Answers(redistest.Hold)
	for range 3 {
		w.advance(5000)
		w.uncertain(d.tryExtend(soon))
	}
	w.advance(lease) // its window is over
	p.Requests(redistest.Pass)
	p.Answers(redistest.Pass)
	d.extend() // and goes on where it ended: nobody took the worker id
}

func TestSIGSTOPOfRedis(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	w.server.Pause()
	w.uncertain(d.tryExtend(soon))
	w.uncertain(d.tryExtend(soon)) // not even sent
	w.server.Resume()
	d.extend()
	if n := len(d.remembered().Releasing(script.Release{Grant: d.grant}).Known); n != 1 {
		t.Errorf("%d request ids are remembered", n)
	}
}

func TestCLIENTPAUSE(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	var err error
	w.server.Until("an extension meets the pause", func() bool { // which may be over by then on a busy machine
		w.server.Do("CLIENT", "PAUSE", 1000)
		err = d.tryExtend(soon)
		return err != nil
	})
	w.uncertain(err)
	d.extend()
}

func TestBUSY(t *testing.T) {
	w := newWorld(t, "--lua-time-limit", "20")
	d := w.holders(1)[0]
	busy := w.server.Client()
	go busy.Eval(context.Background(), "while true do end", nil)
	w.server.Until("the server says BUSY", func() bool {
		err := d.tryExtend(redislink.Patience)
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	w.uncertain(d.tryExtend(redislink.Patience))
	w.server.Do("SCRIPT", "KILL")
	w.server.Until("it is extended again", func() bool { return d.tryExtend(redislink.Patience) == nil })
}

func TestOOM(t *testing.T) {
	w := newWorld(t, "--maxmemory-policy", "noeviction")
	d := w.holders(1)[0]
	newcomer := w.daemon()
	w.server.Do("CONFIG", "SET", "maxmemory", 1)
	for _, err := range []error{d.tryExtend(redislink.Patience), newcomer.tryAcquire(redislink.Patience),
		d.tryExtend(redislink.Patience)} {
		if w.uncertain(err); !strings.Contains(err.Error(), "OOM") {
			t.Errorf("error is %v", err)
		}
	}
	w.server.Do("CONFIG", "SET", "maxmemory", 0)
	d.extend()
	newcomer.acquire()
}

func TestMISCONF(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	if err := os.RemoveAll(w.server.Dir); err != nil {
		t.Fatal(err)
	}
	w.server.Do("CONFIG", "SET", "save", "3600 1")
	w.server.Do("BGSAVE")
	w.server.Until("the server says MISCONF", func() bool {
		err := d.tryExtend(redislink.Patience)
		return err != nil && strings.Contains(err.Error(), "MISCONF")
	})
	w.server.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	d.extend()
}

func TestLOADING(t *testing.T) {
	w := newWorld(t, "--appendonly", "yes", "--key-load-delay", "5000", // microseconds; until it was seen
		"--loading-process-events-interval-bytes", "1024")
	d := w.holders(1)[0]
	p := w.server.Client().Pipeline()
	for i := range 5000 { // 25 s; Redis answers after some 35 of them
		p.Set(context.Background(), fmt.Sprint("key", i), strings.Repeat("y", 200), 0)
	}
	if _, err := p.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.server.Do("BGREWRITEAOF")
	w.server.Until("it is rewritten", func() bool { return w.server.Info("aof_rewrite_in_progress") == "0" })
	w.server.Kill()
	w.server.LaunchOnly()
	saw := false
	w.server.Until("it is extended again", func() bool {
		err := d.tryExtend(redislink.Patience)
		if err != nil && strings.Contains(err.Error(), "LOADING") && !saw {
			saw = true
			w.server.Do("CONFIG", "SET", "key-load-delay", "0")
		}
		return err == nil
	})
	if !saw {
		t.Error("LOADING was not seen")
	}
}

func TestPoolOf3With5Daemons(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.advance(1)
	var all []*daemon
	for range 5 {
		all = append(all, w.daemon())
	}
	served := map[*daemon]int{}
	holds := map[*daemon]bool{}
	for round := range 200 {
		w.advance(5000)
		for i := range all {
			d := all[(i+round)%len(all)]
			switch {
			case holds[d] && (round+i)%17 == 0: // crashes: its worker id comes free when its lease ends
				holds[d] = false
				d.owner = workerid.NewOwner()
			case holds[d] && (round+i)%13 == 0:
				holds[d] = false
				if err := d.release(w.now()); late(err) {
					d.owner = workerid.NewOwner() // as after a crash
				} else if err != nil {
					t.Fatal(err)
				}
			case holds[d]:
				d.extend()
				served[d]++
			default:
				err := d.tryAcquire(redislink.Patience)
				if holds[d] = err == nil; err != nil && !errors.Is(err, workerid.ErrNoID) {
					t.Fatal(err)
				}
			}
		}
	}
	for i, d := range all {
		if served[d] == 0 {
			t.Errorf("daemon %d never had a worker id", i)
		}
	}
}

// Real clocks: Redis stalls for longer than the calls of a thousand daemons wait, and all of them
// want to extend their leases. After the shorter stall their first requests are carried out, but
// nobody gets the answers. After the longer one they are refused, because the clocks in them are
// off.
func TestStallUnder1000Clients(t *testing.T) {
	const fleet = 1000
	w := newWorld(t)
	w.config.Max, w.config.Now = fleet, nil
	w.config.Lease = 10 * time.Minute // a busy machine may take a while to start a fleet
	w.real = true
	w.init(New)
	all := make([]*daemon, fleet)
	for i := range all {
		all[i] = w.daemon()
	}
	each := func(atOnce int, f func(d *daemon)) {
		var wg sync.WaitGroup
		turns := make(chan struct{}, atOnce)
		for _, d := range all {
			turns <- struct{}{}
			wg.Go(func() {
				f(d)
				<-turns
			})
		}
		wg.Wait()
	}
	each(20, func(d *daemon) {
		if err := d.settleAcquire(); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	for _, stall := range []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond} {
		w.server.Pause()
		resume := time.AfterFunc(stall, w.server.Resume)
		defer resume.Stop()
		each(fleet, func(d *daemon) {
			for deadline := time.Now().Add(2 * time.Minute); ; {
				err := d.tryExtend(time.Second)
				switch {
				case err == nil:
					return
				case errors.Is(err, workerid.ErrLost) || errors.Is(err, workerid.ErrCloned) || time.Now().After(deadline):
					t.Errorf("%+v: %v", d.grant, err)
					return
				}
			}
		})
	}
	held := map[uint64]bool{}
	for _, d := range all {
		held[d.grant.Worker] = true
	}
	if len(held) != fleet {
		t.Errorf("%d worker ids are held by %d daemons", len(held), fleet)
	}
	t.Logf("%s connections were made", w.server.Info("total_connections_received"))
}

func TestPermissions(t *testing.T) {
	w := newWorld(t)
	w.server.Do(documentedRule(t, "REDIS.md")...)
	w.config.URL = "redis://katsubushi:secret@" + w.server.Addr() + "/0?ns=" + redistest.Namespace(t)
	w.keepTheirIDs(w.holders(2))
	p := w.pool()
	if l, err := p.List(t.Context()); err != nil || len(l) != 3 {
		t.Errorf("%v, %v", l, err)
	}
	w.config.URL = strings.Replace(w.config.URL, "secret", "wrong", 1)
	if err := w.daemon().tryAcquire(redislink.Patience); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("error is %v", err)
	}
}

// documentedRule is the command that a document says makes the user that a daemon needs.
func documentedRule(t *testing.T, doc string) (command []any) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(text), "\nACL SETUSER ")
	rule, _, _ = strings.Cut("ACL SETUSER "+rule, "\n")
	for word := range strings.FieldsSeq(strings.ReplaceAll(rule, "~NAME:*", "~"+redistest.Namespace(t)+":*")) {
		command = append(command, word)
	}
	return command
}
