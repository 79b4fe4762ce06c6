package sim

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// watch is how long newcomers and returners watch, ms.
const watch = heartbeat + heartbeat/10 + 2*timeout

var poolRules = pool.Rules{W: watch * time.Millisecond, MaxSkew: skew}

const poolEpsilon = 2*skew + 1000

// casPool is a store with a compare-and-set in memory. Daemons use it by the real package cas.
type casPool struct {
	w       *world
	server  *memcas.Server
	clients map[*daemon]*poolClient
	saved   []saved
	jumped  int64 // until then some clock is wrong for a moment

	stopAt map[*daemon]func() // what happens when it is about to write
	heirs  bool               // see forgetHeir
	quiet  int64              // until then nothing else goes wrong
	spared *daemon            // nothing else happens to it at a restore
	bound  *daemon            // by every rule it notices a restore, which nobody tells of then

	far      *daemon // whose clock was; its windows may reach far
	farUntil int64
}

type saved struct {
	at    int64
	state memcas.State
}

func newPool(w *world) *casPool {
	p := &casPool{w: w, clients: map[*daemon]*poolClient{}, stopAt: map[*daemon]func(){}}
	p.server = memcas.NewServer(func() int64 { return w.now }, lease/2)
	if w.Faults == Clocks { // a clock that is wrong by a year costs a worker id for a year
		w.Workers += 100
	}
	p.server.Init(p.meta())
	return p
}

func (p *casPool) meta() pool.Meta {
	return pool.Meta{
		Epoch: "0", Floor: start, Fingerprint: "simulated", Lease: lease, Epsilon: poolEpsilon, Min: 1,
		Max: uint64(p.w.Workers),
	}
}

// A poolClient is a daemon's side. It runs a Session's calls one after another, each as a coroutine
// that waits wherever the real one waits for an answer.
type poolClient struct {
	p       *casPool
	d       *daemon
	life    int
	session cas.Session
	wire    *poolWire
	queue   []call
	do      func() // what is being carried out, if anything
	due     int64  // until then upkeep is put off
	resume  func() (struct{}, bool)
	stop    func()
}

// A call waits for its turn until the daemon has given it up.
type call struct {
	until int64
	do    func()
}

// poolWire is the driver.
type poolWire struct {
	memcas.Driver
	c      *poolClient
	yield  func(struct{}) bool
	Faulty                   // of mutants
	name   string            // the first connection, for one of them
	done   func(pool.Change) // a commit was acknowledged, for another one,
	read   func(pool.View)   // which changes what was read
	coming int               // answers that the server has sent
}

func (p *casPool) client(d *daemon) *poolClient {
	if old := p.clients[d]; old != nil {
		old.stop()
	}
	c := &poolClient{p: p, d: d, life: d.life}
	p.clients[d] = c
	c.session = cas.Session{Pool: p.meta(), Addr: "simulated"}
	c.connect()
	c.upkeep(heartbeat)
	return c
}

// stop ends the coroutines. Each keeps all that a run has in memory.
func (p *casPool) stop() {
	for _, c := range p.clients {
		c.stop()
	}
}

// connect gives the session its driver and rules.
func (c *poolClient) connect() {
	c.wire = &poolWire{c: c, Faulty: FaultyOf(c.p.w.Mutant, poolRules)}
	c.wire.Driver = memcas.Driver{Server: c.p.server, Client: memcas.Client{Stale: c.wire.Stale}, Ask: c.wire.ask}
	if c.wire.blind {
		c.wire.beBlind()
	}
	c.session.Driver, c.session.Rules = c.wire, c.wire.Rules
	c.resume, c.stop = iter.Pull(c.work)
	c.session.Now = func() pool.Moment {
		return pool.Moment{Boot: time.Duration(c.p.w.now) * time.Millisecond, ID: c.d.clock(), Wall: c.d.clock()}
	}
}

// upkeep does what is due between calls, in some time, as cas.Store does.
func (c *poolClient) upkeep(ms int64) {
	c.d.later(ms, func() {
		if left := c.due - c.p.w.now; left > 0 {
			c.upkeep(left)
			return
		}
		c.queue = append(c.queue, call{math.MaxInt64, func() {
			c.due = 0
			next := int64(heartbeat)
			if c.session.Upkeep(context.Background()) {
				next = timeout / 4
			}
			c.upkeep(next)
		}})
		c.next()
	})
}

// run carries out a call when it is its turn.
func (c *poolClient) run(do func()) {
	c.queue = append(c.queue, call{c.p.w.now + timeout, do})
	c.next()
}

func (c *poolClient) next() {
	for c.do == nil && len(c.queue) > 0 {
		q := c.queue[0]
		if c.queue = c.queue[1:]; q.until > c.p.w.now {
			c.do = q.do
			c.resume()
		}
	}
}

// work is the coroutine. One carries out all calls: a new one's stack would grow again.
func (c *poolClient) work(yield func(struct{}) bool) {
	c.wire.yield = yield
	for more := true; more; more = yield(struct{}{}) {
		c.do()
		c.do = nil
	}
}

func (c *poolClient) advance() {
	c.resume()
	c.next()
}

var errGone = errors.New("the process has ended")

// ask sends something to the server and waits for the answer.
func (x *poolWire) ask(_ context.Context, _ string, do func() (any, error)) (v any, err error) {
	c, d, w, settled := x.c, x.c.d, x.c.d.w, false
	if d.life != c.life { // it is not to act in the next life
		return nil, errGone
	}
	err = errTimeout
	finish := func() {
		if !settled {
			settled = true
			c.advance()
		}
	}
	d.later(timeout, finish)
	send := func() {
		if d.lost() {
			return
		}
		w.after(d.latency(), func() {
			if d.lost() {
				return
			}
			got, failed := do()
			if d.lost() || w.now < w.answersLost || d.life != c.life {
				return
			}
			x.coming++
			d.later(d.latency(), func() {
				x.coming--
				if !settled {
					v, err = got, failed
				}
				finish()
			})
		})
	}
	if w.Weather == Storm && !w.calm && w.now >= d.sheltered && !d.paused && w.chance(2000) {
		d.stand(w.upTo(2 * lease)) // after it has looked at the clock
	}
	if d.paused {
		d.later(0, send)
	} else {
		send()
	}
	if !x.yield(struct{}{}) {
		return nil, errGone
	}
	return v, err
}

// Connect asks the server, as a client library notices that a connection broke.
func (x *poolWire) Connect(context.Context) (string, error) {
	if x.OneName {
		return x.renamed()
	}
	if x.Client.Conn != "" && x.Server.Alive(x.Client.Conn) {
		return x.Client.Conn, nil
	}
	return x.dial()
}

// dial makes a connection, and uses it if the answer comes.
func (x *poolWire) dial() (string, error) {
	v, err := x.ask(context.Background(), "connect", func() (any, error) { return x.Server.Dial(), nil })
	if err != nil {
		return "", err
	}
	x.Client.Conn = v.(string)
	return x.Client.Conn, nil
}

func (x *poolWire) Load(ctx context.Context, conn string) (pool.View, error) {
	v, err := x.Driver.Load(ctx, conn)
	if x.read != nil && err == nil {
		x.read(v)
	}
	return v, err
}

func (x *poolWire) Commit(ctx context.Context, conn string, ch pool.Change) (cas.Answer, error) {
	if stopped := x.c.p.stopAt[x.c.d]; stopped != nil && len(ch.Set) > 0 {
		delete(x.c.p.stopAt, x.c.d)
		stopped()
	}
	w := x.c.p.w
	v, err := x.ask(ctx, "write", func() (any, error) { return x.CommitTo(x.Server, &x.Client, conn, ch) })
	a, _ := v.(cas.Answer)
	if x.done != nil && err == nil && a.Done {
		x.done(ch)
	}
	if w.Faults == Restores && err == nil && a.Done && x.c.p.heirs {
		w.after(4*usual, func() { x.c.p.forgetHeir(x.c.d, ch) }) // when the daemon has its answer
	}
	return a, err
}

// A request is what the store does when it arrives. It replies once, at once or later, or never.
type request func(reply func(answer))

// An answer is what the daemon makes of a reply when it arrives. It is not heard if the daemon no
// longer waits for it.
type answer func(heard bool) workerid.Event

// background is a request that the client sends by itself.
func (c *poolClient) background(do func(ctx context.Context, reply func(answer))) request {
	return func(reply func(answer)) {
		c.d.later(0, func() { c.run(func() { do(context.Background(), reply) }) })
	}
}

func (c *poolClient) acquire(e workerid.Acquire) request {
	return c.background(func(ctx context.Context, reply func(answer)) {
		g, err := c.session.Acquire(ctx, e.Request)
		reply(func(heard bool) workerid.Event {
			if heard && err == nil {
				c.session.Heard(g)
			}
			return workerid.Acquired{Lane: e.Lane, Grant: g, Err: err}
		})
	})
}

func (c *poolClient) extend(e workerid.Extend) request {
	return c.background(func(ctx context.Context, reply func(answer)) {
		results, err := c.session.Extend(ctx, e.Held)
		if c.session.Idle() {
			c.due = c.p.w.now + cas.IdleFor(heartbeat*time.Millisecond).Milliseconds()
		}
		reply(func(bool) workerid.Event { return workerid.Extended{Results: results, Err: err} })
	})
}

func (c *poolClient) release(e workerid.Release) request {
	return c.background(func(ctx context.Context, reply func(answer)) {
		err := c.session.Release(ctx, e.Grant, e.Last)
		reply(func(bool) workerid.Event { return workerid.Released{Lane: e.Lane, Err: err} })
	})
}

func (c *poolClient) clone(d *daemon) *poolClient {
	n := &poolClient{p: c.p, d: d, life: d.life, session: *copied.Of(&c.session)}
	c.p.clients[d] = n
	n.connect()
	n.upkeep(heartbeat)
	return n
}
