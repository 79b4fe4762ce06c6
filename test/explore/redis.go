package explore

import (
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// The figures of the world of Redis, ms. The lease, the clocks and the run-ahead are those of the world of leases.
const (
	redisBeat  = 1_000
	redisTime  = 17_000
	redisRetry = 100 // after an answer that does not count
)

// redisPauses are how long daemons stand still, ms: half a lease, and just longer than one with the margin for clocks.
var redisPauses = [...]int64{lease / 2, lease + epsilon + redisBeat/2}

// heedless is a mutant of the daemon. The others of this world are of the scripts: see testdata/mutants.txt.
const heedless = "grants do not wait for the replica"

// A carrier carries out a script on a server's keys, at its time, Unix ms.
type carrier func(s *scripted.Server, c script.Call, now int64) (any, error)

// redis is the world of two daemons that want one worker id of a pool in Redis: a master and its replica, which may be
// behind and be promoted then. Servers carry out the scripts that ship, in a real Redis that lends its Lua; daemons use
// the memory of requests that ships. A world in which grants wait for the replica has another start. It does not
// change.
type redis struct {
	heedless bool // the mutant: what a replica does not have counts
	waits    bool
	carry    carrier
	now      int64
	servers  [2]redisServer
	master   int
	daemons  [2]*redisDaemon
	windows  []window
	late     *redisCall // a request that is carried out when nobody waits for it
	names    int
	requests int
	promise
}

// A redisServer holds the pool. Its keys do not change.
type redisServer struct {
	scripted.Server
	skew    int64 // its clock − time
	up      bool
	follows bool // the other one
	behind  bool // its replica gets nothing new
}

// A redisDaemon is what one has between its events. It does not change.
type redisDaemon struct {
	owner     string
	life      int
	memory    *script.Memory
	known     []string // what memory has, for the digest
	server    int      // to which it is connected; -1 = it looks for the master
	grant     workerid.Grant
	published bool // and issues from it
	stopped   bool // a copy of it runs
	due       int64
	offset    int64 // of its clock
	call      *redisCall
}

// A redisCall is a request that is to be sent, or whose answer is to come.
type redisCall struct {
	daemon, server int
	at             int64
	acquire        *script.Acquire
	extend         *script.Extend
	release        *script.Release
	answered       bool
	acquired       script.Acquired
	extended       script.Extended
	err            error
}

// newRedis returns the world of one holder and one that waits, once all is steady.
func newRedis(carry carrier, waits bool, mutant string) World {
	w := &redis{waits: waits, heedless: mutant == heedless, carry: carry}
	for i := range w.servers {
		s := &w.servers[i]
		s.Run, s.Replid = w.name(), w.name()
		s.up, s.skew = true, []int64{skew / 2, -skew / 2}[i]
	}
	w.servers[1].follows, w.servers[1].Replica = true, true
	w.daemons = [2]*redisDaemon{w.born(0, 0), w.born(1, 0)}
	w.daemons[1].due += redisBeat/2 + 1
	w.at(w.master, script.Init{Terms: w.terms(), Now: began, RequestID: w.request(), How: script.InitNew})
	for w.now < old {
		w = w.Do(Choice{}).(*redis)
	}
	return &since{w, w.now}
}

func (w *redis) name() string {
	w.names++
	return strconv.Itoa(w.names)
}

func (w *redis) request() string {
	w.requests++
	return "r" + strconv.Itoa(w.requests)
}

func (w *redis) terms() script.Terms {
	t := script.Terms{Fingerprint: "explored", Lease: lease, MaxLease: lease, MaxSkew: skew, Epsilon: epsilon, Min: 1,
		Max: 1}
	if w.waits {
		t.Replicas = 1
	}
	return t
}

// born is a daemon that has just started.
func (w *redis) born(i, life int) *redisDaemon {
	return &redisDaemon{
		owner: string(rune('a'+i)) + strconv.Itoa(life), life: life, memory: &script.Memory{}, server: -1, due: w.now + 50,
		offset: []int64{skew / 2, -skew / 2}[i],
	}
}

// own makes a daemon this state's.
func (w *redis) own(i int) *redisDaemon {
	d := *w.daemons[i]
	w.daemons[i] = &d
	return &d
}

func (d *redisDaemon) at() int64 {
	if d.call != nil {
		return d.call.at
	}
	return d.due
}

// first is the daemon whose event is the next: -1 = a late request.
func (w *redis) first() (who int, at int64) {
	who, at = -1, 1<<62
	if w.late != nil {
		at = w.late.at
	}
	for i, d := range w.daemons {
		if t := d.at(); !d.stopped && t < at {
			who, at = i, t
		}
	}
	return who, at
}

// after is just after the next event of the other daemon.
func (w *redis) after(i int) int64 { return max(w.daemons[1-i].at(), w.now) + 1 }

// Now implements World.
func (w *redis) Now() int64 { return w.now }

// Choices implements World.
func (w *redis) Choices(to []Choice, extra bool) []Choice {
	all := offer(append(to, Choice{}))
	m, o := &w.servers[w.master], &w.servers[1-w.master]
	if m.behind || !o.follows { // it catches up, or becomes a replica
		all.free(Restore, 1-w.master, 0)
	}
	if !extra {
		return all
	}
	if i, _ := w.first(); i >= 0 && w.daemons[i].call == nil {
		all.preempt(i, 0, Put, LateSend, LateAnswer)
		for _, k := range []Kind{NoRequest, NoAnswer, Kill, Delayed} {
			all.fault(k, i, 0, 0)
		}
		for arg := range 2 {
			all.fault(Pause, i, 0, arg)
			all.fault(Jump, i, 0, arg)
			if w.daemons[i].grant.Owner != "" {
				all.fault(Stop, i, 0, arg)
			}
		}
	}
	if o.follows && !m.behind {
		all.fault(Breaks, w.master, 0, 0)
	}
	if o.follows {
		all.fault(Power, w.master, 0, 0)
		all.fault(Promote, 1-w.master, 0, 0)
	}
	if o.follows && w.waits { // otherwise two masters may not serve at once
		all.fault(Promote, 1-w.master, 0, 1)
	}
	all.fault(Free, w.master, 0, 0)
	if !w.waits {
		all.fault(Wipe, w.master, 0, 0)
	}
	return all
}

// Do implements World.
func (w *redis) Do(c Choice) World {
	n := *w
	n.windows = slices.Clone(w.windows)
	i := int(c.Who)
	switch c.Kind {
	case Default, LateSend, LateAnswer, NoRequest, NoAnswer, Delayed:
		n.step(c)
	case Put:
		n.own(i).due = n.after(i)
	case Pause:
		n.own(i).due = n.now + redisPauses[c.Arg]
	case Kill:
		n.end(i)
	case Stop:
		n.stop(i, c.Arg == 1)
	case Jump:
		n.own(i).offset = []int64{-skew / 2, skew / 2}[c.Arg]
	case Breaks:
		n.servers[i].behind = true
	case Promote:
		n.promote(i, c.Arg == 1)
	case Power:
		n.servers[i].Run, n.servers[i].Keys, n.servers[i].behind = n.name(), n.servers[1-i].Keys, false
	case Restore:
		m, o := &n.servers[n.master], &n.servers[i]
		o.up, o.follows, o.Replica, o.Replid, o.Keys, m.behind = true, true, true, m.Replid, m.Keys, false
	case Free:
		n.at(n.master, script.Free{Terms: scripted.Operator(n.terms()), Now: began + n.now, RequestID: n.request(),
			Worker: 1})
	case Wipe:
		n.servers[i].Keys = scripted.Keys{}
		n.follow(i)
	}
	n.use()
	return &n
}

// promote makes the replica the master, as it is. The old one may serve on.
func (w *redis) promote(i int, serves bool) {
	s, former := &w.servers[i], &w.servers[1-i]
	s.follows, s.Replica, s.behind, s.Replid = false, false, false, w.name()
	former.up, former.behind, w.master = serves, false, i
}

// at lets a server carry out a call, and says how many replicas have what it wrote.
func (w *redis) at(i int, c script.Call) (answer any, have int, err error) {
	s := &w.servers[i]
	if s.Online = 0; w.servers[1-i].follows {
		s.Online = 1
	}
	answer, err = w.carry(&s.Server, c, began+w.now+s.skew)
	return answer, w.follow(i), err
}

// follow brings what a server has to its replica.
func (w *redis) follow(i int) (have int) {
	if s, o := &w.servers[i], &w.servers[1-i]; o.follows && !s.behind {
		o.Keys = s.Keys
		return 1
	}
	return 0
}

// end ends a daemon's life, and starts it again.
func (w *redis) end(i int) {
	w.use()
	end(w.windows, i)
	offset := w.daemons[i].offset
	w.daemons[i] = w.born(i, w.daemons[i].life+1)
	w.daemons[i].offset = offset
}

// stop is a clean stop. The release may be carried out late.
func (w *redis) stop(i int, late bool) {
	w.use()
	d := w.own(i)
	d.memory = copied.Of(d.memory)
	last := d.grant.Lo - 1
	for _, x := range w.windows {
		if x.daemon == i && x.lo == d.grant.Lo {
			last = x.used
		}
	}
	q := d.memory.Releasing(script.Release{Terms: w.terms(), Now: began + w.now + d.offset, RequestID: w.request(),
		Grant: d.grant, Last: last})
	c := &redisCall{daemon: i, server: w.connected(d), release: &q, at: w.now + timeout + 1}
	if late {
		w.late = c
	} else {
		w.carryOut(c)
	}
	w.end(i)
}

// connected is the server that a daemon talks to.
func (w *redis) connected(d *redisDaemon) int {
	if d.server < 0 || !w.servers[d.server].up {
		d.server = w.master
	}
	return d.server
}

// step lets the next event happen.
func (w *redis) step(c Choice) {
	i, at := w.first()
	w.now = max(w.now, at)
	if i < 0 {
		call := *w.late
		w.late = nil
		w.carryOut(&call)
		return
	}
	d := w.own(i)
	call := d.call
	if d.call = nil; call == nil {
		call = w.ask(i)
	} else {
		again := *call
		call = &again
	}
	switch c.Kind {
	case LateSend:
		call.at, d.call = w.after(i), call
		return
	case NoRequest:
		d.silent(w.now)
		return
	case Delayed:
		call.at, w.late = w.now+timeout+redisBeat/4, call
		d.silent(w.now)
		return
	}
	if !call.answered {
		w.carryOut(call)
	}
	switch c.Kind {
	case NoAnswer:
		d.silent(w.now)
	case LateAnswer:
		call.at, d.call = w.after(i), call
	default:
		w.answer(i, call)
	}
}
