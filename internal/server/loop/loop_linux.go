// Package loop holds what event loops share, whichever way they wait: a loop's ports and
// connections, bytes that wait to be read or sent, signals from other goroutines, start and drain.
package loop

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

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"

	"golang.org/x/sys/unix"
)

// A Loop is the common part of the event loops of both Linux engines. Its fields belong to the
// goroutine that runs it, which is locked to a thread. Other goroutines reach it through Signal.
type Loop struct {
	*server.Config
	Acceptors []acceptor   // one per port
	Raw       bool         // wait without telling the runtime; see raw_linux.go
	holds     int          // how many more interrupted waits keep the P
	Loops     int          // number of event loops of this engine
	balance   *balance     // shared by them
	load      atomic.Int64 // connections that it has, or is to get
	Conns     table
	Share     *server.Share // share of the daemon's budget
	Strained  bool          // the budget may be used up
	// Learn sets a connection's Peer when it begins to hold something, which few ever do: only then does
	// the peer matter. It may be late with it; then it calls Learned.
	Learn    func(*Conn)
	spare    []*Waiting // kept for reuse
	Again    []int32    // slots of connections that get another turn without waiting for an event
	now      int64      // time of this turn
	Sweep    uint32     // number of the last sweep for idle connections
	Draining bool
	Frozen   bool // no session is fed, and nothing is accepted

	lingering, lingeringLong []ref // since less, and since more, than the last SignalLinger
	latency                  latency.Sampler
	spin                     spin
	parking                         // connections whose sessions wait
	Read, Written            uint64 // bytes in this turn; added to the shared Counters once per turn

	mu      sync.Mutex
	Wake    int           // an eventfd, -1 when closed; guarded by mu, so that it is not closed while in use
	given   []Arrival     // connections accepted by a dealer, or adopted; guarded by mu
	orders  []*Freeze     // see Taken; guarded by mu
	ended   chan struct{} // closed when the loop has returned
	Signals atomic.Uint32
}

// A ref names a connection that may be gone by the time it is looked up.
type ref struct {
	slot int32
	life uint32
}

// Signals to an event loop.
const (
	SignalDrain   = 1 << iota // stop accepting, answer what has arrived, close
	SignalForce               // close everything
	SignalSweep               // look for idle connections
	SignalLinger              // close connections that have lingered long enough
	SignalAccept              // try to accept again
	SignalGiven               // there is something to take, see Taken
	SignalRelieve             // close the biggest holders while the budget is used up
	SignalTrim                // free spare buffers
	SignalWake                // ask the parked sessions again: Engine.Wake was called
	SignalPoll                // ... because Config.ParkPause is over
	SignalAsk                 // ... those that this round has not asked yet
	signalHold                // keep the P for a while: Engine.Hold was called
)

// A Runner runs an event loop for an engine.
type Runner interface {
	Run() error // returns when the loop is drained or cannot go on
	Close()     // frees the runner's resources
}

const (
	spareBuffers = 16  // buffers that a loop keeps for reuse
	TurnAccepts  = 128 // most connections accepted in one turn
)

// Serve runs one loop per listener of the port with the most listeners, until all loops are
// drained. Meanwhile control reaches them: one Serve at a time.
func Serve(ctx context.Context, c *server.Config, control *Control, ports []server.Port,
	start func(*Loop) (Runner, error)) error {
	removeFiles := server.TakeSocketFiles(ports)
	all := new(balance)
	loops, dealers, err := makeLoops(c, all, ports)
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
	s := &serving{balance: all, dealers: dealers, ports: ports}
	control.serving.Store(s)
	defer control.serving.Store(nil)
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
	if !control.drain(s) {
		removeFiles()
	}
	dealing.Wait()
	all.pause()
	signalAll(loops, SignalDrain)
	force := time.AfterFunc(c.DrainTimeout, func() { signalAll(loops, SignalForce) })
	running.Wait()
	force.Stop()
	close(failures)
	return <-failures
}

// makeLoops makes the loops for ports, and dealers for the ports that need one. It takes over the
// listeners. After an error, the caller must close what makeLoops returned, and the listeners.
func makeLoops(c *server.Config, all *balance, ports []server.Port) (loops []*Loop, dealers []*dealer, err error) {
	if len(ports) > maxPorts {
		return nil, nil, fmt.Errorf("%d ports; at most %d can be served together", len(ports), maxPorts)
	}
	n := 0
	for _, p := range ports {
		n = max(n, len(p.Listeners))
	}
	for range n {
		l := &Loop{Config: c, Wake: -1, ended: make(chan struct{}), Acceptors: make([]acceptor, len(ports)), Loops: n,
			balance: all, Raw: mayBlockRaw(n)}
		l.latency, l.spin = c.Sampler(len(loops)), newSpin(c.Spin, threadUsage)
		loops = append(loops, l)
		if l.Wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return loops, nil, os.NewSyscallError("eventfd", err)
		}
		l.Share = c.Share(func() { l.Signal(SignalRelieve) }, func() { l.Signal(SignalTrim) })
	}
	all.loops = loops
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

// sweepUntil makes the loops look for idle connections until ctx ends.
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

// mayBlockRaw reports whether loops may block in the kernel without first handing their processor
// (the runtime's P) to other goroutines. Three conditions: each loop has a P, there is at least one
// more P for everything else, and the runtime can interrupt the loops. The answer may change while
// the program runs, because the runtime follows the limits of its control group.
func mayBlockRaw(loops int) bool {
	return runtime.GOMAXPROCS(0) > loops && !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")
}

func (l *Loop) run(start func(*Loop) (Runner, error)) error {
	defer close(l.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := start(l)
	if err != nil {
		return err
	}
	defer r.Close()
	defer l.latency.Flush()
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
		if a.Adopted != nil {
			l.Counters.Current.Add(-1)
		}
	}
	for i := range l.Acceptors {
		l.Acceptors[i].Close()
	}
}

// Signal asks the loop to do something. Any goroutine may call it at any time.
func (l *Loop) Signal(s uint32) {
	if l.Signals.Or(s)&s != 0 {
		return // the loop has not handled the previous signal yet
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

// Silence resets the wake-up call. The loop looks at the signals afterwards, so it loses none.
func (l *Loop) Silence() {
	var count [8]byte
	unix.Read(l.Wake, count[:])
}

// TurnBegins reads the clock once for the whole turn. The input of the turn has arrived.
func (l *Loop) TurnBegins() {
	l.now = l.Now()
	l.latency.Begins(l.now)
}

// TurnEnds is called when the answers of the turn are handed to the kernel, or are next.
func (l *Loop) TurnEnds() {
	l.latency.Ends()
	l.spin.ends(l.Written != 0)
	if l.Read != 0 {
		l.Counters.BytesRead.Add(l.Read)
	}
	if l.Written != 0 {
		l.Counters.BytesWritten.Add(l.Written)
	}
	l.Read, l.Written = 0, 0
	l.Share.Flush()
}

// Digest feeds input to the session, behind what the session left before, and appends the answer to
// out. It keeps what the session leaves now. The client is active: it has sent something, or taken all that was
// answered before.
func (l *Loop) Digest(c *Conn, input, out []byte) []byte {
	c.Last = l.Sweep
	w := c.Waiting
	if w != nil && w.In.Len() > 0 {
		w.In.add(input)
		input = w.In.Bytes()
	}
	if c.since != 0 {
		l.latency.Resumes()
	}
	before := len(out)
	n, out, full, err := server.Converse(&c.Session, l.now, input, out)
	if err != nil && server.Waits(err) {
		n, out, full, err = l.park(c, input, n, out)
	}
	c.More, c.Ending = full || c.Parked, err != nil
	switch answered := len(out) > before; {
	case c.since != 0 || c.Parked:
		l.waits(c, answered)
	case answered:
		l.latency.Answered()
	}
	switch {
	case w != nil && w.In.Len() > 0:
		w.In.Drop(n)
	case n < len(input):
		w = l.room(c)
		w.In.add(input[n:])
	}
	if w != nil && !c.More && w.In.Len() > server.MaxInput && err == nil {
		l.Log.Warn("closing a connection whose session does not consume its input", "bytes", w.In.Len())
		c.Ending = true
	}
	l.Settle(c)
	l.account(c)
	return out
}

// Settle takes the buffers back from c once no bytes wait in them.
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

// Linger records that c has sent its last reply. c is closed when the client closes it, takes too
// long, or sends too much.
func (l *Loop) Linger(c *Conn) {
	c.Lingering, c.More = true, false
	l.Disown(c)
	c.Waiting = &Waiting{Left: server.LingerBytes}
	if len(l.lingering)+len(l.lingeringLong) == 0 {
		time.AfterFunc(l.Lingers(), func() { l.Signal(SignalLinger) })
	}
	l.lingering = append(l.lingering, ref{c.Slot, c.Life})
}

// LingeredLong calls drop for the connections that were already lingering at the previous call.
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

// SweepIdle calls drop for the connections that were idle for the whole time-out. A client that
// waits for its answer is not idle, unless it does not take what was sent before.
func (l *Loop) SweepIdle(drop func(*Conn)) {
	l.Sweep++
	l.Conns.All(func(c *Conn) {
		if c.Parked && !c.Unsent() {
			c.Last = l.Sweep
		}
		if server.Idle(l.Sweep, c.Last) && !c.Closing {
			l.Counters.IdleClosed.Add(1)
			drop(c)
		}
	})
}

// Forget frees what a closed connection held.
func (l *Loop) Forget(c *Conn) {
	if c.Waiting != nil {
		c.Waiting.In.Drop(c.Waiting.In.Len())
		c.Waiting.Out.Drop(c.Waiting.Out.Len())
		c.Lingering = false
		l.Settle(c)
	}
	l.Conns.vacate(c)
	l.Left()
}
