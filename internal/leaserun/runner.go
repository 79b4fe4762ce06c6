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

// A runner is a Keeper's only lane; its generator is another program. It implements workerid.Lanes.
type runner struct {
	c        *Config
	terms    terms
	wake     chan struct{} // tells guard to look now
	cgroup   *cgroup       // for the program
	noCgroup error         // why the program has no cgroup

	// mu guards what follows. It is held only briefly: never while logging or calling the store.
	mu      sync.Mutex
	offered *window   // the last published window; nil while none is usable
	own     *window   // the program's window, which it keeps; nil before its start
	child   *child    // nil before the program's start
	seen    int64     // the latest time that the clock has shown while the program lived
	why     string    // why the lease ends the program, if it does
	asked   bool      // the program got a SIGTERM for that
	killAt  time.Time // when to kill the program if it still lives; zero: no time limit is running
}

var _ workerid.Lanes = (*runner)(nil)

// Publish offers a window. A running program does not take another one.
func (r *runner) Publish(_ int, worker uint64, lo, hi int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = &window{worker, lo, hi}
	return nil
}

// Extend lengthens the offered window, which is also the program's if the program got it.
func (r *runner) Extend(_ int, _, hi int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered != nil {
		r.offered.hi = hi
	}
	return nil
}

// Seal kills the program if it still lives, and returns when nothing of it is left. A window that the
// program never had is unused.
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
		return 0 // lost before the program's start: there is nothing to give back
	case !used:
		return offered.lo - 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms.last(*offered, max(r.seen, r.c.Now()))
}

// position returns the last Unix ms that the program may have issued ids from, 0 before its start.
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

// heard looks at what the store said about the lease. After a loss the program could still use the rest
// of its window, but it must end after that anyway, so it is asked to end at once. If somebody else uses
// the same window, such as a copy of this process, it is killed at once.
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

// doom records the first reason why the program must end. mu is held.
func (r *runner) doom(why string) {
	if r.why == "" {
		r.why = why
	}
}

// limit gives the program StopTimeout to end, counted from the first call. mu is held.
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

// supervise waits for a window, runs the program in it and returns the exit code, with the reason if the
// lease ended the program.
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
	// the kernel or a filter may have refused the cgroup, which err cannot tell: try without
	if err != nil && r.noCgroup == nil {
		r.noCgroup = err
		child, err = startChild(r.c.command(r.offered.worker), nil)
	}
	if err != nil {
		return false, err
	}
	r.own, r.child, r.seen = r.offered, child, now
	return true, nil
}

// forward sends a signal to the program. SIGTERM also starts the time limit.
func (r *runner) forward(s os.Signal) {
	r.child.signal(s)
	if s == syscall.SIGTERM {
		r.mu.Lock()
		r.limit()
		r.mu.Unlock()
	}
}

// guard looks at the clock while the program lives. It does nothing else.
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

// look ends the program if it must end now.
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

// outcome returns the exit code of a program that has ended.
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

// meansStop reports whether somebody sends this signal to end a process.
func meansStop(s os.Signal) bool {
	return s == syscall.SIGTERM || s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// signalled is the exit code that shells use for a process that a signal ended.
func signalled(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return 128 + int(n)
}
