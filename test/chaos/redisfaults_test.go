//go:build chaos && linux

package chaos

import (
	"strconv"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func alone(s setting) bool     { return s.replicas == 0 }
func watched(s setting) bool   { return s.replicas > 0 }
func keeps(s setting) bool     { return s.keeps }
func forgetful(s setting) bool { return !s.keeps }

// redisFaults happen to the whole fleet.
var redisFaults = []fault{
	{part: server, name: "kill -9 of the master, and restart", lasts: 2 * lease,
		on: lasting(func(w *world, _ *daemon) { w.redis.kill(w.redis.master) }, revive)},
	{part: server, name: "kill -9 of the master, whose last writes reached no replica", lasts: lease / 2, unless: alone,
		on: (*world).loseWrites},
	{part: server, name: "the master cut off from replicas and Sentinels, not from daemons", lasts: 4 * lease,
		unless: alone, on: (*world).part},
	{part: server, name: "kill -9 of a replica, and restart", lasts: lease, unless: alone,
		on: lasting(func(w *world, _ *daemon) { w.redis.kill(w.replica()) }, revive)},
	{part: server, name: "SIGSTOP of the master", lasts: 2 * lease, on: func(w *world, _ *daemon) func() time.Duration {
		return stop(w.redis.master)
	}},
	{part: server, name: "SIGSTOP of a replica", lasts: lease, unless: alone,
		on: func(w *world, _ *daemon) func() time.Duration {
			return stop(w.replica())
		}},
	{part: server, name: "fail-over by command", unless: alone, on: once(func(w *world, _ *daemon) {
		w.command(w.redis.sentinels[0], "SENTINEL", "FAILOVER", "main")
	})},
	{part: server, name: "the master made a replica of nobody, and a master again", lasts: lease, unless: watched,
		on: func(w *world, _ *daemon) func() time.Duration {
			s := w.redis.master
			w.command(s, "REPLICAOF", "127.0.0.1", "1")
			return then(func() { w.command(s, "REPLICAOF", "NO", "ONE") })
		}},
	{part: server, name: "BUSY: a script that does not end", lasts: lease,
		on: func(w *world, _ *daemon) func() time.Duration {
			s := w.redis.master
			s.Ask("EVAL", "while true do end", "0") // no answer, of course
			return then(func() { s.Ask("SCRIPT", "KILL") })
		}},
	{part: server, name: "CLIENT PAUSE", on: once(func(w *world, _ *daemon) {
		of := []string{"ALL", "WRITE"}[w.rand.IntN(2)]
		w.command(w.redis.master, "CLIENT", "PAUSE", strconv.FormatInt(w.between(0, lease).Milliseconds(), 10), of)
	})},
	{part: server, name: "OOM", lasts: 2 * lease, on: func(w *world, _ *daemon) func() time.Duration {
		return w.setUntil("maxmemory", "1", "0")
	}},
	{part: server, name: "NOREPLICAS", lasts: 2 * lease, on: func(w *world, _ *daemon) func() time.Duration {
		return w.setUntil("min-replicas-to-write", "5", "0")
	}},
	{part: data, name: "all connections to the master cut", on: once(func(w *world, _ *daemon) {
		w.command(w.redis.master, "CLIENT", "KILL", "TYPE", "normal")
	})},
	{part: data, name: "FLUSHALL", unless: keeps, on: once(func(w *world, _ *daemon) {
		w.command(w.redis.master, "FLUSHALL")
		w.newcomers(nil)
	})},
	{part: data, name: "one of the pool's keys deleted", unless: keeps,
		on: once(func(w *world, _ *daemon) {
			key := "chaos:" + []string{"ids", "clients", "stats", "hw", "meta"}[w.rand.IntN(5)]
			w.note("the servers: DEL %s", key)
			w.command(w.redis.master, "DEL", key)
			w.newcomers(nil)
		})},
	{part: clock, name: "a server's clock moved within the skew, and back", lasts: 2 * lease,
		on: func(w *world, _ *daemon) func() time.Duration {
			return w.stepServer(w.oneOf(skew/4, skew/2, 3*skew/4))
		}},
	{part: clock, name: "a server's clock moved far, and back", lasts: 2 * lease, unless: forgetful,
		on: func(w *world, _ *daemon) func() time.Duration {
			return w.stepServer(w.oneOf(10*time.Second, 10*time.Minute))
		}},
	{part: clock, name: "the clocks of all servers and daemons moved, and back", lasts: 2 * lease, unless: forgetful,
		on: (*world).stepAll},
}

// loseWrites cuts the replicas off, lets the master go on alone for a while, and kills it. What was
// written meanwhile is nowhere, unless it was synced, and then it comes back too late.
func (w *world) loseWrites(*daemon) func() time.Duration {
	master, replicas := w.redis.master, w.redis.rest()
	for _, r := range replicas {
		r.Pause()
	}
	w.command(master, "CLIENT", "KILL", "TYPE", "replica") // what lies in a socket's buffer would reach them yet
	w.newcomers(nil)
	dead := false
	return func() time.Duration {
		if dead {
			revive(w, nil)
			return 0
		}
		dead = true
		w.redis.kill(master)
		for _, r := range replicas {
			r.Resume()
		}
		w.note("the servers: %d was killed", master.Port)
		return w.between(time.Millisecond, lease)
	}
}

// part takes the master away from everybody but the daemons, who have a user of their own. The
// others make another master, and daemons that were not cut off stay with the old one.
func (w *world) part(*daemon) func() time.Duration {
	s := w.redis.master
	w.command(s, "CLIENT", "KILL", "TYPE", "replica")
	w.command(s, "ACL", "SETUSER", "default", "-@all", "+acl")
	return then(func() { w.command(s, "ACL", "SETUSER", "default", "+@all") })
}

// newcomers has two daemons start anew at once: what is forgotten or given back now, and may still
// be in use, shall not be given to whoever asks now. Two, since the first to ask may be told to
// wait only because it found out.
func (w *world) newcomers(but *daemon) {
	for _, i := range w.rand.Perm(len(w.daemons))[:2] {
		if d := w.daemons[i]; d != but && !w.struck[d.name+": "+process] {
			w.note("%s: kill -9, and at once it starts again", d.name)
			d.end(syscall.SIGKILL)
			d.start()
		}
	}
}

func (w *world) replica() *redistest.Server {
	all := w.redis.rest()
	return all[w.rand.IntN(len(all))]
}

func stop(s *redistest.Server) func() time.Duration {
	s.Pause()
	return then(s.Resume)
}

// setUntil changes a setting of the master.
func (w *world) setUntil(what, to, back string) func() time.Duration {
	s := w.redis.master
	w.command(s, "CONFIG", "SET", what, to)
	return then(func() { w.command(s, "CONFIG", "SET", what, back) })
}

func (w *world) stepServer(by time.Duration) func() time.Duration {
	s := w.redis.servers[w.rand.IntN(len(w.redis.servers))]
	w.note("the servers: that of %d by %v", s.Port, by)
	return then(w.step(s.Clock(), by))
}

// stepAll moves everybody's clock alike, so that nobody who compares two of them sees it.
func (w *world) stepAll(*daemon) func() time.Duration {
	by := w.oneOf(time.Second, 3*time.Second)
	w.note("all by %v", by)
	var backs []func()
	for _, s := range w.redis.servers {
		backs = append(backs, w.step(s.Clock(), by))
	}
	for _, d := range w.daemons {
		backs = append(backs, w.step(d.Clock, by))
	}
	return then(func() {
		for _, back := range backs {
			back()
		}
	})
}

// command is carried out by a server, or the story says why not.
func (w *world) command(s *redistest.Server, args ...string) {
	if _, err := s.Ask(args...); err != nil {
		w.note("%d: %v: %v", s.Port, args, err)
	}
}
