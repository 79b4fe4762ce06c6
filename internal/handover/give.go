package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// An Upgrade says how Giver.Upgrade goes about it.
type Upgrade struct {
	// Start starts the new process.
	Start func() (Child, error)
	// Timeout is how long the new process may take until it is ready. It may have to wait for a worker id.
	Timeout time.Duration
	// Succeeded is called when the new process serves, before this one stops.
	Succeeded func(Succession)
	// Failed is called once with what Upgrade returns; nil = nobody waits for it. If the new process was given
	// nothing and is slow to end, that is before it has: it may be unable to while a disk stands still.
	Failed func(error)
}

// A Succession says how an upgrade went.
type Succession struct {
	PID     int    // of the new process
	Program string // its version
	Moved   int    // connections that it has now
	Pause   time.Duration
}

// ErrSucceeded is why a process stops after an upgrade.
var ErrSucceeded = errors.New("another process serves now")

// Errors of Upgrade. Nothing has changed.
var (
	errUnderWay   = errors.New("an upgrade is under way already")
	errNotServing = errors.New("this daemon does not serve yet, or no longer")
)

// A Giver is the old side of an upgrade. Any goroutine may call its methods.
type Giver struct {
	c       Config
	serving chan struct{}           // closed by Serves, after the next two are set
	ctx     context.Context         // ends when the process is to stop
	fail    context.CancelCauseFunc // ends it

	upgrading sync.Mutex // held during an upgrade, and from End on
	child     atomic.Pointer[Child]
	reloads   atomic.Bool // since the child was started, which may have read the files before
	retired   bool        // another process serves now, or may: this one must not; with upgrading held
}

// NewGiver makes a Giver. It refuses upgrades before Serves.
func NewGiver(c Config) *Giver { return &Giver{c: c, serving: make(chan struct{})} }

// Serves tells that the process serves from now on. ctx ends when it is to stop; fail makes it stop.
func (g *Giver) Serves(ctx context.Context, fail context.CancelCauseFunc) {
	g.ctx, g.fail = ctx, fail
	close(g.serving)
}

// Serving is closed once Serves was called.
func (g *Giver) Serving() <-chan struct{} { return g.serving }

// Upgrade lets a new process take over. If it does, this one is told to stop. After an error this process
// serves as before. A second call at the same time is refused.
func (g *Giver) Upgrade(u Upgrade) (err error) {
	var told sync.Once
	fail := func(err error) {
		told.Do(func() {
			if u.Failed != nil {
				u.Failed(err)
			}
		})
	}
	defer func() {
		if err != nil {
			fail(err)
		}
	}()
	if !g.upgrading.TryLock() {
		return errUnderWay
	}
	defer g.upgrading.Unlock()
	if err := g.mayUpgrade(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.ctx, u.Timeout)
	defer cancel()
	child, err := u.Start()
	if err != nil {
		return err
	}
	g.child.Store(&child)
	g.reloads.Store(false)
	defer g.child.Store(nil)
	a := &attempt{Giver: g, child: child, failed: fail}
	a.hold = context.AfterFunc(ctx, func() { child.Deadline(time.Unix(1, 0)) })
	defer a.hold()
	defer func() {
		a.passed.Close()
		if !g.retired {
			g.c.Windows.Quiet(false)
		}
	}()
	s, err := a.run(ctx)
	if err != nil {
		return g.stopping(err)
	}
	u.Succeeded(s)
	g.retired = true
	g.fail(ErrSucceeded)
	return nil
}

// stopping returns an error that says so if this process is to stop.
func (g *Giver) stopping(err error) error {
	if g.ctx.Err() != nil {
		return fmt.Errorf("this daemon is being stopped: %w", err)
	}
	return err
}

// Abandon kills a process that may become the successor, if there is one: this one is about to exit.
func (g *Giver) Abandon() {
	if c := g.child.Load(); c != nil {
		(*c).Kill()
	}
}

// Reloads tells that this process reads its files again. One that takes over is made to do so, too.
func (g *Giver) Reloads() { g.reloads.Store(true) }

// End waits for the end of an upgrade that is under way; no other one follows. It reports whether another
// process serves now, or may: then this one must not.
func (g *Giver) End() (retired bool) {
	g.upgrading.Lock()
	return g.retired
}

// mayUpgrade returns why this is not the time for an upgrade.
func (g *Giver) mayUpgrade() error {
	select {
	case <-g.serving:
	default:
		return errNotServing
	}
	switch {
	case g.ctx.Err() != nil:
		return errNotServing
	case os.Getpid() == 1:
		return errors.New("this process is number 1 of a container, which ends with it: start a container with the new " +
			"image, and stop this one when that is ready")
	}
	for lane, s := range g.c.Windows.Lanes() {
		if s.State != workerid.Serving {
			why := s.Reason
			if why != "" {
				why = ": " + why
			}
			return fmt.Errorf("lane %d is %v%s: upgrade when all worker ids are held", lane, s.State, why)
		}
	}
	return nil
}

// An attempt is one upgrade.
type attempt struct {
	*Giver
	child  Child
	failed func(error)     // tells whoever asked
	hold   func() bool     // from now on the end of the context changes nothing; false = it has ended
	passed sockets.Passed  // copies of all sockets
	paused bool            // the services have stopped
	moved  []server.Moved  // what the engine gave away,
	frozen bool            // if it did
	given  bool            // so are the windows
	served bool            // the new process may have issued ids
	since  time.Time       // when the engine was to freeze
	hello  upgrade.Message // what the new process said
}

func (a *attempt) run(ctx context.Context) (Succession, error) {
	err := a.introduce(ctx)
	if err == nil {
		err = a.give(ctx)
	}
	if err == nil && !a.hold() {
		err = ctx.Err()
	}
	if err != nil {
		return Succession{}, errors.Join(err, a.takeBack(err, a.moved))
	}
	// No way back: from here on the connections are the new process's.
	a.child.Deadline(time.Time{})
	err = a.child.Send(upgrade.Message{Kind: upgrade.Serve})
	if err == nil {
		last, cancel := awake(stepTimeout)
		defer cancel()
		_, err = a.child.Await(last, upgrade.Serving)
	}
	pause := time.Since(a.since)
	closeMoved(a.moved)
	if err != nil {
		a.served = true
		return Succession{}, errors.Join(fmt.Errorf("%d connections are lost: %w", len(a.moved), err), a.takeBack(err, nil))
	}
	a.child.Flushed()
	if a.reloads.Load() {
		a.child.Signal(syscall.SIGHUP)
	}
	if a.ctx.Err() != nil { // whoever stopped this process means both
		a.child.Signal(os.Interrupt)
	}
	return Succession{PID: a.child.Pid(), Program: a.hello.Program, Moved: len(a.moved), Pause: pause}, nil
}

// awake returns a context that ends when this process has run for so long. The time does not count in which
// it stood still, as in SIGSTOP: a new process that has said meanwhile that it serves must be heard, not killed.
func awake(limit time.Duration) (context.Context, context.CancelFunc) {
	const tick = time.Second
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for limit > 0 {
			begun := time.Now()
			select {
			case <-time.After(tick):
			case <-ctx.Done():
				return
			}
			if time.Since(begun) < 2*tick {
				limit -= tick
			}
		}
	}()
	return ctx, cancel
}

// introduce tells the new process what it needs to get ready, and waits until it is.
func (a *attempt) introduce(ctx context.Context) (err error) {
	if a.passed, err = a.c.Sockets(); err != nil {
		return err
	}
	for _, part := range portions(a.passed) {
		m := upgrade.Message{Kind: upgrade.Sockets}
		for _, s := range part {
			m.Sockets = append(m.Sockets, s.Name)
			if s.Lent {
				m.Lent = append(m.Lent, s.Name)
			}
		}
		if err := a.child.Send(m, part.Descriptors()...); err != nil {
			return a.unsent(ctx, err)
		}
	}
	err = a.child.Send(upgrade.Message{Kind: upgrade.Begin, Version: upgrade.Version, Program: a.c.Version,
		Fingerprint: a.c.Fingerprint})
	if err != nil {
		return a.unsent(ctx, err)
	}
	if a.hello, err = a.child.Await(ctx, upgrade.Hello); err != nil {
		return err
	}
	switch {
	case a.hello.Version != upgrade.Version:
		return fmt.Errorf("the new process speaks version %d of the upgrade, this one %d: restart instead", a.hello.Version,
			upgrade.Version)
	case a.hello.Fingerprint != a.c.Fingerprint:
		return fmt.Errorf("the ids of the new process have %s, those of this one %s", a.hello.Fingerprint, a.c.Fingerprint)
	case a.hello.Counters != "" && a.hello.Counters != a.c.Counters && a.c.Keeps():
		return fmt.Errorf("the new process has its sequences in %s, this one in %s, so values could repeat: restart instead",
			a.hello.Counters, a.c.Counters)
	}
	return a.mayUpgrade() // it may have taken a minute
}

// unsent says why a message could not be sent: the process has ended, as a rule.
func (a *attempt) unsent(ctx context.Context, err error) error {
	if _, why := a.child.Await(ctx, upgrade.Hello); why != nil {
		return why
	}
	return err
}

// give gives away what only one process can have, and waits until the new one has it.
func (a *attempt) give(ctx context.Context) (err error) {
	if err := a.c.Windows.DiskAnswers(); err != nil {
		return err
	}
	a.c.Windows.Quiet(true)
	a.paused = true
	a.c.Pause()
	freezing, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	a.since = time.Now()
	if a.moved, err = a.c.Mover.Freeze(freezing); err != nil {
		return fmt.Errorf("connections cannot be moved: %w", err)
	}
	a.frozen = true
	a.given = true
	given, err := a.c.Windows.GiveAway()
	if err != nil {
		return err
	}
	a.child.Deadline(time.Now().Add(stepTimeout)) // clients wait: it may read nothing
	m := upgrade.Message{Kind: upgrade.Take, Floor: given.Floor, Ahead: int64(given.Ahead), Connections: len(a.moved)}
	if !a.c.Windows.Leased() { // leased worker ids are not handed over
		if m.Places, err = json.Marshal(given.Places); err != nil {
			return err
		}
	}
	if err := a.child.Send(m); err != nil {
		return a.unsent(ctx, err)
	}
	for _, part := range portions(a.moved) {
		m, fds := upgrade.Message{Kind: upgrade.Moved}, []int(nil)
		for _, c := range part {
			m.Moved = append(m.Moved, upgrade.Connection{Port: c.Port, In: c.In, Out: c.Out, State: c.State})
			fds = append(fds, c.FD)
		}
		if err := a.child.Send(m, fds...); err != nil {
			return a.unsent(ctx, err)
		}
	}
	last, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, err = a.child.Await(last, upgrade.Ready)
	return err
}

// takeBack kills the new process, because of why, and takes back what was given away. The error says that
// something of the new process is left, which may have it all, when this daemon is to stop: it does not serve again.
func (a *attempt) takeBack(why error, moved []server.Moved) error {
	a.hold() // its deadline is not for what is said now
	slow := time.AfterFunc(stepTimeout/10, func() {
		if !a.paused {
			a.failed(a.stopping(why))
		} else {
			a.c.Log.Error("no client gets an answer until the new process, which was killed, has ended", "pid", a.child.Pid())
		}
	})
	defer slow.Stop()
	err := a.child.End(a.ctx, a.served)
	switch {
	case err == nil:
		if err := a.resume(moved); err != nil {
			a.fail(fmt.Errorf("after an upgrade that failed: %w", err))
		}
	case a.paused:
		a.retired = true
		closeMoved(moved)
	}
	return err
}

// resume takes back what was given away. The new process has ended.
func (a *attempt) resume(moved []server.Moved) error {
	server.Unblock(a.passed.Descriptors())
	if a.given {
		if err := a.c.Windows.TakeBack(a.ctx, a.served); err != nil {
			return err
		}
	}
	if a.paused {
		if err := a.c.Resume(a.passed); err != nil {
			return err
		}
	}
	if a.frozen {
		return a.c.Mover.Thaw(moved)
	}
	return nil
}
