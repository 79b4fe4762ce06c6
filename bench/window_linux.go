package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A generator makes the load.
type generator struct {
	cpus      []int // one loop on each
	serverCPU int   // -1 if unknown
	base      time.Time
	warm      time.Duration // before each window
	length    time.Duration // of each window
	driver    func() driver // of the raw client
}

// A load is one mode aimed at one server.
type load struct {
	mode   mode
	to     endpoint
	trust  *tls.Config
	speech string      // "memcached" or "redis"
	pid    int         // of the server; 0 if unknown
	shares int         // of another process whose CPU time counts too; 0 = none
	ids    *unique.Set // that the server has issued; nil if they are not looked at
}

// A reading is what the clocks said at an edge of a window.
type reading struct {
	at     time.Duration
	server time.Duration // CPU time of the server
	idle   time.Duration // of the server's core
	own    time.Duration // CPU time of the calling thread
}

func (g *generator) read(pids ...int) (r reading, err error) {
	pid := pids[0]
	if pid > 0 {
		for _, p := range pids {
			if p == 0 {
				continue
			}
			used, err := processCPU(p)
			if err != nil {
				return r, fmt.Errorf("the server's CPU time: %w", err)
			}
			r.server += used
		}
		if g.serverCPU >= 0 {
			if r.idle, err = cpuIdle(g.serverCPU); err != nil {
				return r, err
			}
		}
	}
	r.own = threadCPU()
	r.at = time.Since(g.base)
	return r, nil
}

// window loads a server for a moment and says what happened.
func (g *generator) window(ld load) (sample, error) {
	if ld.mode.client == goClient {
		return g.goWindow(ld)
	}
	return g.rawWindow(ld)
}

// rawWindow is a window of the raw client.
func (g *generator) rawWindow(ld load) (s sample, err error) {
	loops, err := g.connect(ld)
	defer func() {
		for _, l := range loops {
			l.close()
		}
	}()
	if err != nil {
		return sample{}, err
	}
	if ld.mode.scraped {
		stop, err := scrape(ld.to.web)
		if err != nil {
			return sample{}, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	from := int64(time.Since(g.base) + g.warm)
	edges := make([][]reading, len(loops))
	done := make(chan error, len(loops))
	for i, l := range loops {
		go func() {
			done <- g.pinned(g.cpus[i], func() error {
				return l.run(from, int64(g.length), func() error {
					r, err := g.read(ld.pid, ld.shares)
					edges[i] = append(edges[i], r)
					return err
				})
			})
		}()
	}
	for range loops {
		if e := <-done; e != nil && err == nil {
			err = e
		}
	}
	if err != nil {
		return sample{}, err
	}
	tallies := make([]tally, len(loops))
	for i, l := range loops {
		a, b := edges[i][0], edges[i][1]
		tallies[i] = tally{answers: l.answers, latency: &l.latency, elapsed: b.at - a.at, waiting: time.Duration(l.waiting),
			own: b.own - a.own, seen: l.seen}
	}
	return g.sum(ld, tallies, edges[0][0], edges[0][1])
}

// pinned runs f on a thread of its own, on one CPU. The thread lives on: with its end the kernel
// would kill the servers that it started.
func (g *generator) pinned(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := pinThread(0, cpu); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	defer pinThread(0, g.cpus...)
	return f()
}

// connect makes a loop for each of the generator's CPUs, as far as there are connections for them.
func (g *generator) connect(ld load) (loops []*loop, err error) {
	n := min(len(g.cpus), ld.mode.conns)
	for i := range n {
		conns := ld.mode.conns / n
		if i < ld.mode.conns%n {
			conns++
		}
		var ids idCheck
		if ld.ids != nil {
			ids.seen = &unique.Set{}
		}
		by := g.driver()
		if ld.mode.think != nil {
			by = &loneDriver{think: ld.mode.think}
		}
		greedy := 0
		if i == 0 {
			greedy = ld.mode.greedy
		}
		l, err := newLoop(g.base, ld.to, conns+greedy, greedy, ld.mode.depth, newDialect(ld.mode, ld.speech, ids), by)
		if err != nil {
			return loops, err
		}
		l.seen = ids.seen
		loops = append(loops, l)
	}
	return loops, nil
}

// A tally is what one thread or connection of the generator counted in a window.
type tally struct {
	answers uint64
	latency *histogram
	elapsed time.Duration
	waiting time.Duration // with nothing to read
	own     time.Duration // with a core to run on
	seen    *unique.Set
}

// sum puts the tallies together with what the server's clocks said.
func (g *generator) sum(ld load, tallies []tally, first, last reading) (sample, error) {
	s := sample{elapsed: last.at - first.at, cpu: -1}
	var latency histogram
	for _, t := range tallies {
		part := t.elapsed.Seconds() * float64(len(tallies))
		s.answers += t.answers
		s.waiting += t.waiting.Seconds() / part
		s.generator += t.own.Seconds() / part
		latency.merge(t.latency)
		if ld.ids != nil {
			ld.ids.AddAll(t.seen)
			if id, twice := ld.ids.Duplicate(); twice {
				return s, fmt.Errorf("duplicate id %d", id)
			}
		}
	}
	if ld.pid > 0 {
		s.cpu = last.server - first.server
		if g.serverCPU >= 0 {
			s.foreign = max(0, 1-(s.cpu+last.idle-first.idle).Seconds()/s.elapsed.Seconds())
		}
	}
	s.p50, s.p99, s.p999 = latency.quantile(0.5), latency.quantile(0.99), latency.quantile(0.999)
	return s, nil
}
