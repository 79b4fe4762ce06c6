package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A loop is what the event loops of both engines for Linux have in common. Its fields belong to the goroutine that runs it, which is
// locked to a thread; others reach it through signal.
type loop struct {
	*Config
	acceptors []acceptor // one for each port
	raw       bool       // wait without telling the runtime; see raw_linux.go
	loops     int        // of this engine
	conns     table
	share     *share     // of the daemon's budget
	strained  bool       // the budget may be used up
	spare     []*waiting // to be used again
	again     []int32    // connections that get another turn without waiting for an event
	now       int64      // of this turn
	sweep     uint32     // number of the last sweep for idle connections
	draining  bool

	lingering, lingeringLong []lingerer // since less, and since more, than the last signal of that kind
	read, written            uint64     // in this turn; Counters are shared with other loops, so they are added to once a turn

	mu      sync.Mutex
	wake    int       // an eventfd, -1 when closed; guarded by mu against being closed
	given   []arrival // connections that a dealer has accepted; guarded by mu
	signals atomic.Uint32
}

type lingerer struct {
	slot int32
	life uint32
}

// Signals to a loop.
const (
	signalDrain   = 1 << iota // stop accepting, answer what has arrived, close
	signalForce               // close everything
	signalSweep               // look for idle connections
	signalLinger              // give up connections that linger
	signalAccept              // try again to accept
	signalGiven               // a dealer has accepted a connection
	signalRelieve             // close who holds most, while the budget is used up
	signalTrim                // give up what is kept for later
)

// A runner is an engine's way to run a loop.
type runner interface {
	run() error // until the loop is drained, or cannot go on
	close()     // frees what the runner has
}

const (
	spareBuffers = 16  // buffers that a loop keeps for later
	turnAccepts  = 128 // connections accepted in one turn
)

// serveLoops runs as many loops as the port with most listeners has, until all are drained.
func serveLoops(ctx context.Context, c *Config, ports []Port, start func(*loop) (runner, error)) error {
	lns := listenersOf(ports)
	files := socketFiles(lns)
	loops, dealers, err := makeLoops(c, ports)
	defer func() {
		for _, l := range loops {
			l.close()
		}
	}()
	if err != nil {
		closeAll(lns)
		for _, d := range dealers {
			d.file.Close()
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, len(loops)+len(dealers))
	try := func(err error) {
		if err != nil {
			failures <- err
			cancel()
		}
	}
	var running, dealing sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { try(l.run(start)) })
	}
	for _, d := range dealers {
		dealing.Go(func() { try(d.run(ctx)) })
	}
	sweepUntil(ctx, c, loops)
	removeFiles(files)
	dealing.Wait()
	signalAll(loops, signalDrain)
	force := time.AfterFunc(c.DrainTimeout, func() { signalAll(loops, signalForce) })
	running.Wait()
	force.Stop()
	close(failures)
	return <-failures
}

// makeLoops makes the loops for ports, and the dealers of those that need one. It takes over the listeners. After an error, what it
// returns is to be closed, and the listeners too.
func makeLoops(c *Config, ports []Port) (loops []*loop, dealers []*dealer, err error) {
	if len(ports) > maxPorts {
		return nil, nil, fmt.Errorf("%d ports; at most %d can be served together", len(ports), maxPorts)
	}
	n := 0
	for _, p := range ports {
		n = max(n, len(p.Listeners))
	}
	for range n {
		l := &loop{Config: c, wake: -1, acceptors: make([]acceptor, len(ports)), loops: n, raw: mayBlockRaw(n)}
		loops = append(loops, l)
		if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return loops, nil, os.NewSyscallError("eventfd", err)
		}
		l.share = c.budget().share(func() { l.signal(signalRelieve) }, func() { l.signal(signalTrim) })
	}
	for number := range ports {
		p := &ports[number]
		if p.TLS != nil {
			return loops, dealers, errors.New("event loops do not encrypt: the net engine does")
		}
		for i, l := range loops {
			l.acceptors[number] = newAcceptor(p, i)
		}
		if p.needsDealer() {
			d, err := newDealer(c, number, p, loops[:len(p.Listeners)])
			if err != nil {
				return loops, dealers, err
			}
			dealers = append(dealers, d)
			continue
		}
		for i, ln := range p.Listeners {
			if err := loops[i].acceptors[number].takeOver(ln); err != nil {
				return loops, dealers, err
			}
		}
	}
	return loops, dealers, nil
}

// sweepUntil has the loops look for idle connections until ctx ends.
func sweepUntil(ctx context.Context, c *Config, loops []*loop) {
	var tick <-chan time.Time // never
	if c.IdleTimeout > 0 {
		sweeper := time.NewTicker(sweepPeriod(c.IdleTimeout))
		defer sweeper.Stop()
		tick = sweeper.C
	}
	for {
		select {
		case <-tick:
			signalAll(loops, signalSweep)
		case <-ctx.Done():
			return
		}
	}
}

// mayBlockRaw tells whether loops may block in the kernel without handing their processor (the runtime's P) to other goroutines first.
// They need one each then, there must be another for everything else, and the runtime must be able to interrupt them. The answer may
// change while the program runs: the runtime follows the limits of its control group.
func mayBlockRaw(loops int) bool {
	return runtime.GOMAXPROCS(0) > loops && !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")
}

func (l *loop) run(start func(*loop) (runner, error)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := start(l)
	if err != nil {
		return err
	}
	defer r.close()
	return r.run()
}

func (l *loop) close() {
	if l.share != nil {
		l.share.leave()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wake >= 0 {
		unix.Close(l.wake)
		l.wake = -1
	}
	for _, a := range l.given {
		unix.Close(int(a.fd))
	}
	for i := range l.acceptors {
		l.acceptors[i].close()
	}
}

// signal asks something of the loop. It may be called from any goroutine, at any time.
func (l *loop) signal(s uint32) {
	if l.signals.Or(s)&s != 0 {
		return // it has not got round to the last one
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wake >= 0 {
		unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func signalAll(loops []*loop, s uint32) {
	for _, l := range loops {
		l.signal(s)
	}
}

// silence takes notice of the wake-up call. The signals are looked at after it, so none is lost.
func (l *loop) silence() {
	var count [8]byte
	unix.Read(l.wake, count[:])
}

// turnBegins reads the clock, once for everything that this turn does.
func (l *loop) turnBegins() { l.now = l.Now() }

func (l *loop) turnEnds() {
	if l.read != 0 {
		l.Counters.BytesRead.Add(l.read)
	}
	if l.written != 0 {
		l.Counters.BytesWritten.Add(l.written)
	}
	l.read, l.written = 0, 0
	l.share.flush()
}

// digest has the session answer input, behind what it has left before, and appends the answer to out. What it leaves now is kept.
func (l *loop) digest(c *conn, input, out []byte) []byte {
	w := c.waiting
	if w != nil && w.in.len() > 0 {
		w.in.add(input)
		input = w.in.bytes()
	}
	n, out, full, err := converse(c.session, l.now, input, out)
	c.more, c.ending = full, err != nil
	switch {
	case w != nil && w.in.len() > 0:
		w.in.drop(n)
	case n < len(input):
		w = l.room(c)
		w.in.add(input[n:])
	}
	if w != nil && !full && w.in.len() > maxInput && err == nil {
		l.Log.Warn("closing a connection whose session does not consume its input", "bytes", w.in.len())
		c.ending = true
	}
	l.settle(c)
	l.account(c)
	return out
}

// room gives c room for bytes that wait.
func (l *loop) room(c *conn) *waiting {
	if c.waiting == nil {
		if n := len(l.spare); n > 0 {
			c.waiting, l.spare = l.spare[n-1], l.spare[:n-1]
		} else {
			c.waiting = new(waiting)
		}
		c.waiting.slot = c.slot
	}
	return c.waiting
}

// keepInput keeps input that the session has not got round to.
func (l *loop) keepInput(c *conn, input []byte) {
	l.room(c).in.add(input)
	l.account(c)
}

// keepOutput keeps output that the socket has not taken.
func (l *loop) keepOutput(c *conn, out []byte) {
	l.room(c).out.add(out)
	l.account(c)
}

// account tells the budget what c holds.
func (l *loop) account(c *conn) {
	if w := c.waiting; w != nil && !c.closing {
		if size := int64(cap(w.in.buf) + cap(w.out.buf)); size != w.size {
			l.share.set(&w.holding, size)
			l.strained = l.strained || l.share.over()
		}
	}
}

// disown takes c, which is to be closed, out of the budget. What still waits is given up when c is forgotten, a turn later at most.
func (l *loop) disown(c *conn) {
	if w := c.waiting; w != nil {
		w.in = queue{}
		l.share.set(&w.holding, 0)
	}
}

// relieve closes connections, those that hold most first, until the budget has room again. sacrifice takes from c what it holds and returns
// true, or false if that cannot be done in this turn.
func (l *loop) relieve(sacrifice func(c *conn) bool) {
	for l.strained {
		switch h := l.share.biggest(); {
		case h == nil:
			l.strained = false
		case l.shrink(l.conns.at(h.slot)):
		case sacrifice(l.conns.at(h.slot)):
			l.share.tellClosed(l.Log)
		default:
			return
		}
	}
}

// shrink gives up what of c's buffers is not in use, if that is most of them: room may have lent it larger ones than it needed.
func (l *loop) shrink(c *conn) bool {
	w := c.waiting
	if used := w.in.len() + w.out.len(); int64(2*used) >= w.size || c.sending {
		return false
	}
	for _, q := range []*queue{&w.in, &w.out} {
		*q = queue{buf: append([]byte(nil), q.bytes()...)}
	}
	l.account(c)
	return true
}

// trim gives up what is kept for later.
func (l *loop) trim() { l.spare = nil }

// settle takes back the room if nothing waits any more.
func (l *loop) settle(c *conn) {
	if w := c.waiting; w != nil && w.in.len() == 0 && w.out.len() == 0 && !c.lingering {
		l.share.set(&w.holding, 0)
		c.waiting = nil
		if len(l.spare) < spareBuffers && cap(w.in.buf) <= keepOutput && cap(w.out.buf) <= keepOutput {
			l.spare = append(l.spare, w)
		}
	}
}

// queue gives c another turn.
func (l *loop) queue(c *conn) {
	if !c.queued {
		c.queued = true
		l.again = append(l.again, c.slot)
	}
}

// linger notes that c was answered for the last time. It is closed when the client closes it, or has sent or taken too much.
func (l *loop) linger(c *conn) {
	c.lingering, c.more = true, false
	l.disown(c)
	c.waiting = &waiting{left: lingerBytes}
	if len(l.lingering)+len(l.lingeringLong) == 0 {
		time.AfterFunc(l.lingers(), func() { l.signal(signalLinger) })
	}
	l.lingering = append(l.lingering, lingerer{c.slot, c.life})
}

// lingeredLong calls drop for the connections that were lingering at the last call already.
func (l *loop) lingeredLong(drop func(*conn)) {
	for _, e := range l.lingeringLong {
		if c := l.conns.at(e.slot); c.life == e.life {
			drop(c)
		}
	}
	l.lingering, l.lingeringLong = l.lingeringLong[:0], l.lingering
	if len(l.lingeringLong) > 0 {
		time.AfterFunc(l.lingers(), func() { l.signal(signalLinger) })
	}
}

// sweepIdle calls drop for the connections that were idle for the whole time-out.
func (l *loop) sweepIdle(drop func(*conn)) {
	l.sweep++
	l.conns.all(func(c *conn) {
		if idle(l.sweep, c.last) && !c.closing {
			l.Counters.IdleClosed.Add(1)
			drop(c)
		}
	})
}

// forget gives back what a closed connection held.
func (l *loop) forget(c *conn) {
	if c.waiting != nil {
		c.waiting.in.drop(c.waiting.in.len())
		c.waiting.out.drop(c.waiting.out.len())
		c.lingering = false
		l.settle(c)
	}
	l.conns.vacate(c)
	l.Counters.Current.Add(-1)
}
