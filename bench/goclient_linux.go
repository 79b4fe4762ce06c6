package main

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// goWindow loads a server with a goroutine for each connection, in plain text or through TLS. What
// it costs the generator is many times what the raw client costs, so its figures compare only with
// each other; the server's CPU time per request is still the server's own.
func (g *generator) goWindow(ld load) (sample, error) {
	var phase atomic.Int32
	answered := make(chan struct{}, ld.mode.conns) // one for each stream that had an answer in the window
	streams := make([]*goStream, 0, ld.mode.conns)
	defer func() {
		for _, s := range streams {
			s.conn.Close()
		}
	}()
	for range ld.mode.conns {
		conn, err := dialGo(ld.to, ld.trust)
		if err != nil {
			return sample{}, err
		}
		var ids idCheck
		if ld.ids != nil {
			ids.seen = &unique.Set{}
		}
		streams = append(streams,
			&goStream{conn: conn, seen: ids.seen, dialect: newDialect(ld.mode, ld.speech, ids), base: g.base, phase: &phase,
				answered: answered})
	}
	ended := make(chan error, len(streams))
	for _, s := range streams {
		go func() { ended <- s.run(ld.mode.depth) }()
	}
	first, last, err := g.phases(ld.pid, &phase, answered, ended)
	phase.Store(finished)
	for range streams {
		if e := <-ended; err == nil {
			err = e
		}
	}
	if err != nil {
		return sample{}, err
	}
	tallies := make([]tally, len(streams))
	for i, s := range streams {
		// The goroutines share their cores with each other; nothing is known of each one's part.
		tallies[i] = tally{answers: s.latency.total, latency: &s.latency, seen: s.seen, elapsed: last.at - first.at,
			own: last.at - first.at}
	}
	return g.sum(ld, tallies, first, last)
}

// phases goes through a window's phases and reads the clocks at both ends of the middle one. A
// stream that ends has failed, and ends it all; its error stays where it is, for who collects them.
func (g *generator) phases(pid int, phase *atomic.Int32, answered <-chan struct{}, ended chan error) (first,
	last reading, err error) {
	pause := func(d time.Duration, until <-chan struct{}) {
		select {
		case e := <-ended:
			ended <- e
			err = e
		case <-until:
		case <-time.After(d):
		}
	}
	if pause(g.warm, nil); err != nil {
		return first, last, err
	}
	if first, err = g.read(pid); err != nil {
		return first, last, err
	}
	phase.Store(counting)
	pause(g.length, nil)
	pause(stallLimit, answered) // the first answer may be late on a busy machine
	if err != nil {
		return first, last, err
	}
	last, err = g.read(pid)
	return first, last, err
}

// The phases of a window.
const (
	warming int32 = iota
	counting
	finished
)

// A goStream is one connection of the goroutine client.
type goStream struct {
	conn    net.Conn
	dialect dialect
	base    time.Time
	seen    *unique.Set
	latency histogram

	phase    *atomic.Int32
	answered chan<- struct{}
}

// run asks, waits for the answers, and asks again, until the window is over.
func (s *goStream) run(depth int) error {
	batch := s.dialect.request(depth)
	buf := make([]byte, 64<<10)
	var at progress
	for s.phase.Load() != finished {
		s.dialect.stamp(batch, &at)
		sent := time.Since(s.base)
		s.conn.SetDeadline(time.Now().Add(stallLimit))
		if _, err := s.conn.Write(batch); err != nil {
			return err
		}
		for left, have := depth, 0; left > 0; {
			n, err := s.conn.Read(buf[have:])
			if err != nil {
				return fmt.Errorf("%w, with %d answers outstanding, after %q", err, left, buf[:have])
			}
			have += n
			used, answers, err := s.dialect.check(&at, buf[:have])
			if err != nil {
				return err
			}
			have = copy(buf, buf[used:have])
			if left -= answers; left < 0 || (left == 0 && have > 0) {
				return fmt.Errorf("an answer that nobody asked for, before %q", buf[:have])
			}
			if answers > 0 && s.phase.Load() == counting {
				if s.latency.total == 0 {
					s.answered <- struct{}{}
				}
				s.latency.add(int64(time.Since(s.base)-sent), answers)
			}
		}
	}
	return nil
}
