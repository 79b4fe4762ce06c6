// Package loop is what event loops share, however they wait: ports and connections as a loop sees them, what waits to be read or
// sent, signals from other goroutines, the start and the drain.
package loop

import (
	"context"
	"errors"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Loop is what the event loops of both engines for Linux have in common. Its fields belong to the goroutine that runs it, which is
// locked to a thread; others reach it through signal.
type Loop struct {
	*server.Config
	Acceptors []acceptor // one for each port
	Raw       bool       // wait without telling the runtime; see raw_linux.go
	Loops     int        // of this engine
	Conns     table
	Share     *server.Share // of the daemon's budget
	Strained  bool          // the budget may be used up
	spare     []*Waiting    // to be used again
	Again     []int32       // connections that get another turn without waiting for an event
	now       int64         // of this turn
	Sweep     uint32        // number of the last sweep for idle connections
	Draining  bool

	lingering, lingeringLong []lingerer // since less, and since more, than the last signal of that kind
	Read, Written            uint64     // in this turn; Counters are shared with other loops, so they are added to once a turn

	mu      sync.Mutex
	Wake    int       // an eventfd, -1 when closed; guarded by mu against being closed
	given   []Arrival // connections that a dealer has accepted; guarded by mu
	Signals atomic.Uint32
}

type lingerer struct {
	slot int32
	life uint32
}

// Signals to a loop.
const (
	SignalDrain   = 1 << iota // stop accepting, answer what has arrived, close
	SignalForce               // close everything
	SignalSweep               // look for idle connections
	SignalLinger              // give up connections that linger
	SignalAccept              // try again to accept
	SignalGiven               // a dealer has accepted a connection
	SignalRelieve             // close who holds most, while the budget is used up
	SignalTrim                // give up what is kept for later
)

// A Runner is an engine's way to run a loop.
type Runner interface {
	Run() error // until the loop is drained, or cannot go on
	Close()     // frees what the runner has
}

const (
	spareBuffers = 16  // buffers that a loop keeps for later
	TurnAccepts  = 128 // connections accepted in one turn
)

// Serve runs as many loops as the port with most listeners has, until all are drained.
func Serve(ctx context.Context, c *server.Config, ports []server.Port, start func(*Loop) (Runner, error)) error {
	removeFiles := server.TakeSocketFiles(ports)
	loops, dealers, err := makeLoops(c, ports)
	defer func() {
		for _, l := range loops {
			l.close()
		}
	}()
	if err != nil {
		server.Close(ports)
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
	removeFiles()
	dealing.Wait()
	signalAll(loops, SignalDrain)
	force := time.AfterFunc(c.DrainTimeout, func() { signalAll(loops, SignalForce) })
	running.Wait()
	force.Stop()
	close(failures)
	return <-failures
}

// makeLoops makes the loops for ports, and the dealers of those that need one. It takes over the listeners. After an error, what it
// returns is to be closed, and the listeners too.
func makeLoops(c *server.Config, ports []server.Port) (loops []*Loop, dealers []*dealer, err error) {
	if len(ports) > maxPorts {
		return nil, nil, fmt.Errorf("%d ports; at most %d can be served together", len(ports), maxPorts)
	}
	n := 0
	for _, p := range ports {
		n = max(n, len(p.Listeners))
	}
	for range n {
		l := &Loop{Config: c, Wake: -1, Acceptors: make([]acceptor, len(ports)), Loops: n, Raw: MayBlockRaw(n)}
		loops = append(loops, l)
		if l.Wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return loops, nil, os.NewSyscallError("eventfd", err)
		}
		l.Share = c.Share(func() { l.Signal(SignalRelieve) }, func() { l.Signal(SignalTrim) })
	}
	for number := range ports {
		p := &ports[number]
		if p.TLS != nil {
			return loops, dealers, errors.New("event loops do not encrypt: the net engine does")
		}
		for i, l := range loops {
			l.Acceptors[number] = newAcceptor(p, i)
		}
		if needsDealer(p) {
			d, err := newDealer(c, number, p, loops[:len(p.Listeners)])
			if err != nil {
				return loops, dealers, err
			}
			dealers = append(dealers, d)
			continue
		}
		for i, ln := range p.Listeners {
			if err := loops[i].Acceptors[number].takeOver(ln); err != nil {
				return loops, dealers, err
			}
		}
	}
	return loops, dealers, nil
}

// sweepUntil has the loops look for idle connections until ctx ends.
func sweepUntil(ctx context.Context, c *server.Config, loops []*Loop) {
	var tick <-chan time.Time // never
	if c.IdleTimeout > 0 {
		sweeper := time.NewTicker(server.SweepPeriod(c.IdleTimeout))
		defer sweeper.Stop()
		tick = sweeper.C
	}
	for {
		select {
		case <-tick:
			signalAll(loops, SignalSweep)
		case <-ctx.Done():
			return
		}
	}
}

// MayBlockRaw tells whether loops may block in the kernel without handing their processor (the runtime's P) to other goroutines first.
// They need one each then, there must be another for everything else, and the runtime must be able to interrupt them. The answer may
// change while the program runs: the runtime follows the limits of its control group.
func MayBlockRaw(loops int) bool {
	return runtime.GOMAXPROCS(0) > loops && !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")
}

func (l *Loop) run(start func(*Loop) (Runner, error)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := start(l)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Run()
}

func (l *Loop) close() {
	if l.Share != nil {
		l.Share.Leave()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Wake >= 0 {
		unix.Close(l.Wake)
		l.Wake = -1
	}
	for _, a := range l.given {
		unix.Close(int(a.FD))
	}
	for i := range l.Acceptors {
		l.Acceptors[i].Close()
	}
}

// Signal asks something of the loop. It may be called from any goroutine, at any time.
func (l *Loop) Signal(s uint32) {
	if l.Signals.Or(s)&s != 0 {
		return // it has not got round to the last one
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Wake >= 0 {
		unix.Write(l.Wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func signalAll(loops []*Loop, s uint32) {
	for _, l := range loops {
		l.Signal(s)
	}
}

// Silence takes notice of the wake-up call. The signals are looked at after it, so none is lost.
func (l *Loop) Silence() {
	var count [8]byte
	unix.Read(l.Wake, count[:])
}

// TurnBegins reads the clock, once for everything that this turn does.
func (l *Loop) TurnBegins() { l.now = l.Now() }

func (l *Loop) TurnEnds() {
	if l.Read != 0 {
		l.Counters.BytesRead.Add(l.Read)
	}
	if l.Written != 0 {
		l.Counters.BytesWritten.Add(l.Written)
	}
	l.Read, l.Written = 0, 0
	l.Share.Flush()
}

// Digest has the session answer input, behind what it has left before, and appends the answer to out. What it leaves now is kept.
func (l *Loop) Digest(c *Conn, input, out []byte) []byte {
	w := c.Waiting
	if w != nil && w.In.Len() > 0 {
		w.In.add(input)
		input = w.In.Bytes()
	}
	n, out, full, err := server.Converse(c.Session, l.now, input, out)
	c.More, c.Ending = full, err != nil
	switch {
	case w != nil && w.In.Len() > 0:
		w.In.Drop(n)
	case n < len(input):
		w = l.room(c)
		w.In.add(input[n:])
	}
	if w != nil && !full && w.In.Len() > server.MaxInput && err == nil {
		l.Log.Warn("closing a connection whose session does not consume its input", "bytes", w.In.Len())
		c.Ending = true
	}
	l.Settle(c)
	l.account(c)
	return out
}

// room gives c room for bytes that wait.
func (l *Loop) room(c *Conn) *Waiting {
	if c.Waiting == nil {
		if n := len(l.spare); n > 0 {
			c.Waiting, l.spare = l.spare[n-1], l.spare[:n-1]
		} else {
			c.Waiting = new(Waiting)
		}
		c.Waiting.Slot = c.Slot
	}
	return c.Waiting
}

// KeepInput keeps input that the session has not got round to.
func (l *Loop) KeepInput(c *Conn, input []byte) {
	l.room(c).In.add(input)
	l.account(c)
}

// KeepOutput keeps output that the socket has not taken.
func (l *Loop) KeepOutput(c *Conn, out []byte) {
	l.room(c).Out.add(out)
	l.account(c)
}

// account tells the budget what c holds.
func (l *Loop) account(c *Conn) {
	if w := c.Waiting; w != nil && !c.Closing {
		if size := int64(cap(w.In.buf) + cap(w.Out.buf)); size != w.Size {
			l.Share.Set(&w.Holding, size)
			l.Strained = l.Strained || l.Share.Over()
		}
	}
}

// Disown takes c, which is to be closed, out of the budget. What still waits is given up when c is forgotten, a turn later at most.
func (l *Loop) Disown(c *Conn) {
	if w := c.Waiting; w != nil {
		w.In = queue{}
		l.Share.Set(&w.Holding, 0)
	}
}

// Relieve closes connections, those that hold most first, until the budget has room again. sacrifice takes from c what it holds and returns
// true, or false if that cannot be done in this turn.
func (l *Loop) Relieve(sacrifice func(c *Conn) bool) {
	for l.Strained {
		switch h := l.Share.Biggest(); {
		case h == nil:
			l.Strained = false
		case l.shrink(l.Conns.At(h.Slot)):
		case sacrifice(l.Conns.At(h.Slot)):
			l.Share.TellClosed(l.Log)
		default:
			return
		}
	}
}

// shrink gives up what of c's buffers is not in use, if that is most of them: room may have lent it larger ones than it needed.
func (l *Loop) shrink(c *Conn) bool {
	w := c.Waiting
	if used := w.In.Len() + w.Out.Len(); int64(2*used) >= w.Size || c.Sending {
		return false
	}
	for _, q := range []*queue{&w.In, &w.Out} {
		*q = queue{buf: append([]byte(nil), q.Bytes()...)}
	}
	l.account(c)
	return true
}

// Trim gives up what is kept for later.
func (l *Loop) Trim() { l.spare = nil }

// Settle takes back the room if nothing waits any more.
func (l *Loop) Settle(c *Conn) {
	if w := c.Waiting; w != nil && w.In.Len() == 0 && w.Out.Len() == 0 && !c.Lingering {
		l.Share.Set(&w.Holding, 0)
		c.Waiting = nil
		if len(l.spare) < spareBuffers && cap(w.In.buf) <= server.KeepOutput && cap(w.Out.buf) <= server.KeepOutput {
			l.spare = append(l.spare, w)
		}
	}
}

// Queue gives c another turn.
func (l *Loop) Queue(c *Conn) {
	if !c.Queued {
		c.Queued = true
		l.Again = append(l.Again, c.Slot)
	}
}

// Linger notes that c was answered for the last time. It is closed when the client closes it, or has sent or taken too much.
func (l *Loop) Linger(c *Conn) {
	c.Lingering, c.More = true, false
	l.Disown(c)
	c.Waiting = &Waiting{Left: server.LingerBytes}
	if len(l.lingering)+len(l.lingeringLong) == 0 {
		time.AfterFunc(l.Lingers(), func() { l.Signal(SignalLinger) })
	}
	l.lingering = append(l.lingering, lingerer{c.Slot, c.Life})
}

// LingeredLong calls drop for the connections that were lingering at the last call already.
func (l *Loop) LingeredLong(drop func(*Conn)) {
	for _, e := range l.lingeringLong {
		if c := l.Conns.At(e.slot); c.Life == e.life {
			drop(c)
		}
	}
	l.lingering, l.lingeringLong = l.lingeringLong[:0], l.lingering
	if len(l.lingeringLong) > 0 {
		time.AfterFunc(l.Lingers(), func() { l.Signal(SignalLinger) })
	}
}

// SweepIdle calls drop for the connections that were idle for the whole time-out.
func (l *Loop) SweepIdle(drop func(*Conn)) {
	l.Sweep++
	l.Conns.All(func(c *Conn) {
		if server.Idle(l.Sweep, c.Last) && !c.Closing {
			l.Counters.IdleClosed.Add(1)
			drop(c)
		}
	})
}

// Forget gives back what a closed connection held.
func (l *Loop) Forget(c *Conn) {
	if c.Waiting != nil {
		c.Waiting.In.Drop(c.Waiting.In.Len())
		c.Waiting.Out.Drop(c.Waiting.Out.Len())
		c.Lingering = false
		l.Settle(c)
	}
	l.Conns.vacate(c)
	l.Counters.Current.Add(-1)
}
