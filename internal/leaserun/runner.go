package leaserun

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A runner is the lane of a Keeper whose generator is another program. It implements workerid.Lanes.
type runner struct {
	c        *Config
	terms    terms
	wake     chan struct{} // the guard is to look now
	cgroup   *cgroup       // for the program
	noCgroup error         // why it is in none

	// mu guards what follows. It is never held for long: nothing is logged, and no store is asked, under it.
	mu      sync.Mutex
	offered *window   // what was published last; nil while there is none that could be used
	own     *window   // the program's, which it keeps; nil before its start
	child   *child    // nil before its start
	seen    int64     // the furthest that the clock has been while the program lived
	why     string    // the lease's reason for ending the program, if it has one
	asked   bool      // the program was sent a TERM for that
	killAt  time.Time // when it is killed if it still lives; zero: not for anything that was asked of it
}

var _ workerid.Lanes = (*runner)(nil)

// Publish offers a window. Once the program runs it is too late for another one.
func (r *runner) Publish(_ int, worker uint64, lo, hi int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = &window{worker, lo, hi}
	return nil
}

// Extend lengthens the window, and with it the program's if it is the same.
func (r *runner) Extend(_ int, _, hi int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered != nil {
		r.offered.hi = hi
	}
	return nil
}

// Seal kills the program if it still lives, and returns once nothing of it is left. A window that the program never had is unused.
func (r *runner) Seal(int) (last int64) {
	r.mu.Lock()
	offered, child := r.offered, r.child
	used := child != nil && r.own == offered
	r.offered = nil
	r.mu.Unlock()
	if used {
		child.kill()
		<-child.gone
	}
	switch {
	case offered == nil:
		return 0 // lost before the program's start: nothing is given back
	case !used:
		return offered.lo - 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms.last(*offered, max(r.seen, r.c.Now()))
}

// position is the last Unix ms that the program may have issued from, 0 before its start.
func (r *runner) position() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.child == nil {
		return 0
	}
	return r.terms.last(*r.own, r.seen)
}

func (r *runner) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.child != nil
}

// heard takes note of what the store said of the lease. After a loss the rest of the window would still be the program's; but then it has
// to end anyway, so it is asked to at once. If somebody else uses the same window, as a copy of this process does, no time is lost on asking.
func (r *runner) heard(err error) {
	lost, shared := errors.Is(err, workerid.ErrLost), errors.Is(err, workerid.ErrShared)
	if !lost && !shared {
		return
	}
	r.mu.Lock()
	if r.child == nil {
		r.offered = nil
	} else {
		r.doom(err.Error())
		if shared {
			r.killAt = time.Now()
		}
	}
	r.mu.Unlock()
	r.lookNow()
}

// doom notes the first reason for which the program has to end. mu is held.
func (r *runner) doom(why string) {
	if r.why == "" {
		r.why = why
	}
}

// limit gives the program StopTimeout to end, counted from the first time. mu is held.
func (r *runner) limit() {
	if r.killAt.IsZero() {
		r.killAt = time.Now().Add(r.c.StopTimeout)
	}
}

func (r *runner) lookNow() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// supervise waits for a window, runs the program in it and returns the exit code, with the reason if the lease is that.
func (r *runner) supervise() (code int, err error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for started := false; !started; {
		select {
		case s := <-r.c.Signals:
			if meansStop(s) {
				return signalled(s), fmt.Errorf("stopped by a signal before there was a worker id: %v", s)
			}
		case <-ticker.C:
			if started, err = r.start(); err != nil {
				return startCode(err), err
			}
		}
	}
	go r.guard()
	place := r.cgroup.String()
	if r.noCgroup != nil {
		place = "none: " + r.noCgroup.Error()
	}
	r.c.Log.Info("started", "command", r.c.Command[0], "worker_id", r.own.worker, "cgroup", place, "pid", r.child.pid())
	for {
		select {
		case s := <-r.c.Signals:
			r.forward(s)
		case <-r.child.gone:
			return r.outcome()
		}
	}
}

// start starts the program if the clock is inside the window.
func (r *runner) start() (started bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.c.Now()
	if r.offered == nil || !r.terms.ready(*r.offered, now) {
		return false, nil
	}
	child, err := startChild(r.c.command(r.offered.worker), r.cgroup)
	if err != nil && r.noCgroup == nil { // the kernel and its filters have reasons to refuse it that cannot be told from others
		r.noCgroup = err
		child, err = startChild(r.c.command(r.offered.worker), nil)
	}
	if err != nil {
		return false, err
	}
	r.own, r.child, r.seen = r.offered, child, now
	return true, nil
}

// forward passes a signal on. Whoever says TERM means that it is to end.
func (r *runner) forward(s os.Signal) {
	r.child.signal(s)
	if s == syscall.SIGTERM {
		r.mu.Lock()
		r.limit()
		r.mu.Unlock()
	}
}

// guard looks at the clock as long as the program lives. It does nothing else.
func (r *runner) guard() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		r.look()
		select {
		case <-r.child.gone:
			return
		case <-r.wake:
		case <-ticker.C:
		}
	}
}

// look ends the program if it has to end now.
func (r *runner) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.c.Now()
	r.seen = max(r.seen, now)
	v, why := r.terms.judge(*r.own, now)
	if v != live {
		r.doom(why)
	}
	if r.why != "" && !r.asked && v != kill {
		r.asked = true
		r.limit()
		r.child.signal(syscall.SIGTERM)
	}
	if v == kill || !r.killAt.IsZero() && !time.Now().Before(r.killAt) {
		r.child.kill()
	}
}

// outcome is the exit code of a program that is over.
func (r *runner) outcome() (code int, err error) {
	r.mu.Lock()
	why := r.why
	r.mu.Unlock()
	code = r.child.code()
	r.c.Log.Info("ended", "command", r.c.Command[0], "code", code)
	if why != "" {
		return ExitLeaseOver, errors.New("the program had to end: " + why)
	}
	return code, nil
}

// meansStop says whether a signal would end a process that does not handle it, by somebody's wish.
func meansStop(s os.Signal) bool {
	return s == syscall.SIGTERM || s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// signalled is the shells' exit code for a process that a signal ended.
func signalled(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return 128 + int(n)
}
