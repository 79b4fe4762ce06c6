package main

import (
	"fmt"
	"time"
)

// idleBase is how many connections a server has before its memory is measured: what it needs once,
// it has by then.
const idleBase = 64

// idle measures what a connection costs a server in memory that has asked once and then says
// nothing. The server should be fresh, or it puts the connections into memory that it has kept from
// before.
func idle(ld load) (bytesPerConn float64, err error) {
	d := newDialect(ld.mode, ld.speech, idCheck{})
	var conns []rawConn
	defer func() {
		for _, c := range conns {
			c.close()
		}
	}()
	open := func(n int) (resident int64, err error) {
		for range n {
			c, err := dialRaw(ld.to)
			if err != nil {
				return 0, fmt.Errorf("idle connection %d: %w", len(conns)+1, err)
			}
			conns = append(conns, c)
			if err := c.ask(d, stallLimit); err != nil {
				return 0, fmt.Errorf("idle connection %d: %w", len(conns), err)
			}
		}
		return settled(ld.pid)
	}
	before, err := open(idleBase)
	if err != nil {
		return 0, err
	}
	after, err := open(ld.mode.conns)
	return float64(after-before) / float64(ld.mode.conns), err
}

// settled is the resident memory of a process once it has stopped to change, or after three seconds.
func settled(pid int) (int64, error) {
	last, err := residentBytes(pid)
	for range 12 {
		if err != nil {
			return 0, err
		}
		time.Sleep(250 * time.Millisecond)
		now, err := residentBytes(pid)
		if err != nil || now == last {
			return now, err
		}
		last = now
	}
	return last, err
}
