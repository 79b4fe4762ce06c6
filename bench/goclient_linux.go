package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// goWindow loads a server with a goroutine for each connection, in plain text or through TLS. What it costs the generator is many times
// what the raw client costs, so its figures compare only with each other; the server's CPU time per request is still the server's own.
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
			ids.seen = newIDSet()
		}
		streams = append(streams, &goStream{conn: conn, seen: ids.seen, dialect: newDialect(ld.mode, ld.speech, ids), base: g.base, phase: &phase, answered: answered})
	}
	var running sync.WaitGroup
	errs := make([]error, len(streams))
	for i, s := range streams {
		running.Go(func() { errs[i] = s.run(ld.mode.depth) })
	}
	time.Sleep(g.warm)
	first, err1 := g.read(ld.pid)
	phase.Store(counting)
	time.Sleep(g.length)
	select {
	case <-answered:
	case <-time.After(stallLimit): // the streams say why
	}
	last, err2 := g.read(ld.pid)
	phase.Store(finished)
	running.Wait()
	if err := errors.Join(append(errs, err1, err2)...); err != nil {
		return sample{}, err
	}
	tallies := make([]tally, len(streams))
	for i, s := range streams {
		// The goroutines share their cores with each other; nothing is known of each one's part.
		tallies[i] = tally{answers: s.latency.total, latency: &s.latency, seen: s.seen, elapsed: last.at - first.at, own: last.at - first.at}
	}
	return g.sum(ld, tallies, first, last)
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
	seen    *idSet
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
