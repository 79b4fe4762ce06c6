package sim

import (
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// The figures of Redis, in ms. A lease is four times epsilon, the least that a daemon accepts.
const (
	redisSkew   = 750
	waitTimeout = 500
)

// redis is servers with one pool: each the model of the scripts over its own data, with its own
// clock, and between them asynchronous replication. It is a store.
type redis struct {
	w       *world
	servers []*server
	master  *server // who is said to be the master
	terms   script.Terms
	writes  int // of all servers
	ids     int
}

type server struct {
	redismodel.Server
	skew    int64 // its clock − time
	up      bool
	life    int             // counts the lives of the process
	stalled int64           // it does nothing until then
	saved   redismodel.Keys // what a restart may come back with

	of       *server // its master, of a replica
	attached int     // counts its connections to masters: what is under way on an earlier one is void
	online   bool    // it has had everything that its master had when it came
	version  int     // the last write that it has
	held     int64   // until then nothing reaches it from its master
	arrives  int64   // when the last write that is under way does
}

func newRedis(w *world) *redis {
	r := &redis{w: w}
	n := 1 + w.rand.IntN(3)
	r.terms = script.Terms{
		Fingerprint: "sim", Lease: lease, MaxLease: lease, MaxSkew: redisSkew,
		Epsilon: workerid.Epsilon(redisSkew * time.Millisecond).Milliseconds(), Min: 1, Max: uint64(w.Workers),
	}
	if w.Store == Keeping {
		r.terms.Replicas = n - 1
	}
	for i := range n {
		s := &server{up: true}
		s.Replica = i > 0
		s.Run, s.Replid, s.Mutant = r.id(), r.id(), w.Mutant.ofRedis()
		r.servers = append(r.servers, s)
		r.setClock(s)
	}
	r.promote(r.servers[0])
	r.operate(script.InitNew)
	return r
}

// id is a new run id or replication id.
func (r *redis) id() string {
	r.ids++
	return fmt.Sprintf("%x", r.ids)
}

func (r *redis) clock(s *server) int64 { return start + r.w.now + s.skew }

// setClock sets a server's clock to one that keeps within redisSkew, in mild weather with room for
// the daemons' own.
func (r *redis) setClock(s *server) {
	limit := int64(redisSkew - 2*usual) // as daemons see it
	if r.w.Weather == Bridged {
		limit /= 2
	}
	s.skew = r.w.upTo(2*limit) - limit
	if r.w.chance(2) {
		s.skew = limit * (r.w.upTo(1)*2 - 1)
	}
}

// promote makes a server the master that everybody is told of, with the data that it has.
func (r *redis) promote(s *server) {
	s.of, s.online, s.Replica, s.Replid = nil, false, false, r.id()
	s.attached++
	r.master = s
	for _, x := range r.servers {
		if x != s && x.up && x.Replica {
			r.follow(x, s)
		}
	}
}

// follow makes a server a replica. It keeps what it has until its master's data arrive.
func (r *redis) follow(x, master *server) {
	x.of, x.online, x.Replica, x.Replid = master, false, true, master.Replid
	x.attached++
	x.arrives = r.w.now
	r.send(x, r.w.latency())
}

// send lets a replica have its master's present data, in time.
func (r *redis) send(x *server, latency int64) {
	master, attached, version, keys := x.of, x.attached, x.of.version, x.of.Keys.Clone()
	x.arrives = max(r.w.now+latency, x.arrives, x.held)
	r.w.after(x.arrives-r.w.now, func() {
		if x.up && x.of == master && x.attached == attached {
			x.Keys, x.version, x.online = keys, version, true
		}
	})
}

// wrote replicates what was written.
func (r *redis) wrote(s *server) {
	r.writes++
	s.version = r.writes
	for _, x := range r.replicas(s) {
		r.send(x, r.w.upTo(usual))
	}
}

// replicas are those that are connected to a server.
func (r *redis) replicas(s *server) []*server {
	var all []*server
	for _, x := range r.servers {
		if x.up && x.of == s {
			all = append(all, x)
		}
	}
	return all
}

// run lets a server do something, when it gets round to it and if it is still the same by then.
func (r *redis) run(s *server, do func()) {
	life := s.life
	switch {
	case !s.up:
	case r.w.now < s.stalled:
		r.w.after(s.stalled-r.w.now+r.w.upTo(usual), func() {
			if life == s.life {
				r.run(s, do)
			}
		})
	default:
		s.Online = 0
		for _, x := range r.replicas(s) {
			if x.online {
				s.Online++
			}
		}
		do()
	}
}

// wait is WAIT: it counts the replicas that have a write, when there are enough or it is time.
func (r *redis) wait(s *server, version, needed int, until int64, done func(have int)) {
	have := 0
	for _, x := range r.replicas(s) {
		if x.online && x.version >= version {
			have++
		}
	}
	if have >= needed || r.w.now >= until || s.Replica {
		done(have)
		return
	}
	r.w.after(4, func() { r.run(s, func() { r.wait(s, version, needed, until, done) }) })
}

// operate is what people do with the commands of the daemon.
func (r *redis) operate(how string) {
	s, t := r.master, r.terms
	t.Replicas = -1
	r.run(s, func() {
		made, _ := s.Server.Init(script.Init{Terms: t, Now: start + r.w.now, RequestID: r.w.requestID(), How: how},
			r.clock(s))
		if made == "adopted" || made == "waiting" { // all that is left may look like yaraus's, which nobody here uses
			s.Server.Init(script.Init{Terms: t, Now: start + r.w.now, RequestID: r.w.requestID(), How: script.InitMigrated},
				r.clock(s))
		}
		r.wrote(s)
	})
}

// command lets the master carry out an operator's call.
func (r *redis) command(call func() script.Call) {
	s := r.master
	r.run(s, func() {
		_, _ = s.Carry(call(), r.clock(s))
		r.wrote(s)
	})
}

func (r *redis) resetClock() {
	r.command(func() script.Call {
		return script.ResetClock{Terms: redismodel.Operator(r.terms), Now: start + r.w.now, RequestID: r.w.requestID()}
	})
}

// free is carried out by an operator whose clock is so far ahead.
func (r *redis) free(worker uint64, ahead int64) {
	r.command(func() script.Call {
		return script.Free{Terms: redismodel.Operator(r.terms), Now: start + r.w.now + ahead, RequestID: r.w.requestID(),
			Worker: worker}
	})
}
