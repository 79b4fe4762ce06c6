package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// The old side of an upgrade: a process of a new program takes over without a gap. takeOver is the
// new side; package upgrade says what the two say to each other.
//
// Until the new process has everything that it needs, nothing changes here, so a new program that
// does not come up does no harm. Then:
//
//  1. The services answer what is under way; new connections wait in the backlogs of the sockets.
//  2. The engine freezes: from here on no id is issued, so the largest position is final.
//  3. Worker ids given by hand are released, as at a clean stop. Leased ones are kept: the new process
//     has leased its own.
//  4. The new process gets the connections and the largest position, opens the state files, and says
//     that it is ready. It has touched no connection.
//  5. This process says Serve. It never touches the connections again.
//
// If anything goes wrong before 5, the new process is killed with all that it has started. When all of that
// has ended, however long it takes, all is taken back: nobody else can have issued an id or answered a
// connection. A signal to stop ends the wait, and this process, which serves nobody again. If the new process
// dies after 5, its connections are lost, and this one serves new ones.
//
// Sequences stay as they are until the new process serves. What this process had reserved is given back
// then, or is a gap if the new one has reserved meanwhile: values rise either way.

// An Upgrade says how Daemon.Upgrade goes about it.
type Upgrade struct {
	// Start starts the new process.
	Start func() (*upgrade.Child, error)
	// Timeout is how long the new process may take until it is ready. It may have to wait for a worker id.
	Timeout time.Duration
	// Succeeded is called when the new process serves, before Run ends.
	Succeeded func(Succession)
}

// A Succession says how an upgrade went.
type Succession struct {
	PID     int    // of the new process
	Program string // its version
	Moved   int    // connections that it has now
	Pause   time.Duration
}

// takeTimeout is how long the new process may take for each of the last steps, and to take what it is sent.
const takeTimeout = 10 * time.Second

// servicePause is how long the services may take for the requests that are under way.
const servicePause = 300 * time.Millisecond

// errSucceeded is why Run ends after an upgrade.
var errSucceeded = errors.New("another process serves now")

// Errors of Upgrade. Nothing has changed.
var (
	errUnderWay   = errors.New("an upgrade is under way already")
	errNotServing = errors.New("this daemon does not serve yet, or not any more")
)

// running is what an upgrade needs of Run.
type running struct {
	ctx        context.Context // ends when the daemon is to stop
	fail       context.CancelCauseFunc
	background *sync.WaitGroup
}

// Upgrade lets a new process take over. If it does, Run returns soon after. After an error this process
// serves as before. Any goroutine may call it; a second call at the same time is refused.
func (d *Daemon) Upgrade(u Upgrade) error {
	if !d.upgrading.TryLock() {
		return errUnderWay
	}
	defer d.upgrading.Unlock()
	if err := d.mayUpgrade(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(d.running.ctx, u.Timeout)
	defer cancel()
	child, err := u.Start()
	if err != nil {
		return err
	}
	d.child.Store(child)
	defer d.child.Store(nil)
	h := &handover{d: d, child: child}
	h.hold = context.AfterFunc(ctx, func() { child.Deadline(time.Unix(1, 0)) })
	defer h.hold()
	defer func() {
		h.passed.Close()
		if !d.retired.Load() {
			d.windows.Quiet(false)
		}
	}()
	s, err := h.run(ctx)
	switch {
	case err == nil:
		u.Succeeded(s)
		d.retired.Store(true)
		d.running.fail(errSucceeded)
	case d.running.ctx.Err() != nil:
		err = fmt.Errorf("this daemon is being stopped: %w", err)
	}
	return err
}

// Abandon kills a process that may become the successor, if there is one: this one is about to exit.
func (d *Daemon) Abandon() {
	if c := d.child.Load(); c != nil {
		c.Kill()
	}
}

// mayUpgrade returns why this is not the time for an upgrade.
func (d *Daemon) mayUpgrade() error {
	select {
	case <-d.front.Opened():
	default:
		return errNotServing
	}
	switch {
	case d.stopping.Load() || d.running.ctx.Err() != nil:
		return errNotServing
	case os.Getpid() == 1:
		return errors.New("this process is number 1 of a container, which ends with it: start a container with the new " +
			"image, " +
			"and stop this one when that is ready")
	}
	for lane, s := range d.windows.Lanes() {
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

// A handover is one attempt.
type handover struct {
	d      *Daemon
	child  *upgrade.Child
	hold   func() bool     // from now on the end of the context changes nothing; false = it has ended
	passed sockets.Passed  // copies of all sockets
	paused bool            // the services have stopped
	moved  []server.Moved  // what the engine gave away,
	frozen bool            // if it did
	given  bool            // so are the windows
	served bool            // the new process may have issued ids
	since  time.Time       // when the engine was to freeze
	s      upgrade.Message // Hello
}

func (h *handover) run(ctx context.Context) (Succession, error) {
	d := h.d
	err := h.introduce(ctx)
	if err == nil {
		err = h.give(ctx)
	}
	if err == nil && !h.hold() {
		err = ctx.Err()
	}
	if err != nil {
		return Succession{}, errors.Join(err, h.takeBack(h.moved))
	}
	// No way back: from here on the connections are the new process's.
	h.child.Deadline(time.Time{})
	err = h.child.Send(upgrade.Message{Kind: upgrade.Serve})
	if err == nil {
		last, cancel := awake(takeTimeout)
		defer cancel()
		_, err = h.child.Await(last, upgrade.Serving)
	}
	pause := time.Since(h.since)
	closeMoved(h.moved)
	if err != nil {
		h.served = true
		return Succession{}, errors.Join(fmt.Errorf("%d connections are lost: %w", len(h.moved), err), h.takeBack(nil))
	}
	h.child.Flushed()
	if d.running.ctx.Err() != nil { // whoever stopped this process means both
		h.child.Signal(os.Interrupt)
	}
	return Succession{PID: h.child.Pid(), Program: h.s.Program, Moved: len(h.moved), Pause: pause}, nil
}

func closeMoved(moved []server.Moved) {
	for _, m := range moved {
		upgrade.CloseAll([]int{m.FD})
	}
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
func (h *handover) introduce(ctx context.Context) (err error) {
	d := h.d
	if h.passed, err = d.allSockets(); err != nil {
		return err
	}
	for rest := h.passed; len(rest) > 0; {
		n := min(len(rest), upgrade.MaxDescriptors)
		m, fds := upgrade.Message{Kind: upgrade.Sockets}, []int(nil)
		for _, s := range rest[:n] {
			m.Sockets, fds = append(m.Sockets, s.Name), append(fds, s.FD)
			if s.Lent {
				m.Lent = append(m.Lent, s.Name)
			}
		}
		if err := h.child.Send(m, fds...); err != nil {
			return h.unsent(ctx, err)
		}
		rest = rest[n:]
	}
	err = h.child.Send(upgrade.Message{Kind: upgrade.Begin, Version: upgrade.Version, Program: d.c.Version,
		Fingerprint: d.c.Layout.Fingerprint()})
	if err != nil {
		return h.unsent(ctx, err)
	}
	if h.s, err = h.child.Await(ctx, upgrade.Hello); err != nil {
		return err
	}
	switch ours := d.c.Layout.Fingerprint(); {
	case h.s.Version != upgrade.Version:
		return fmt.Errorf("the new process speaks version %d of the upgrade, this one %d: restart instead", h.s.Version,
			upgrade.Version)
	case h.s.Fingerprint != ours:
		return fmt.Errorf("the ids of the new process have %s, those of this one %s", h.s.Fingerprint, ours)
	}
	return d.mayUpgrade() // it may have taken a minute
}

// unsent says why a message could not be sent: the process has ended, as a rule.
func (h *handover) unsent(ctx context.Context, err error) error {
	if _, why := h.child.Await(ctx, upgrade.Hello); why != nil {
		return why
	}
	return err
}

// allSockets returns copies of all sockets that this process listens on.
func (d *Daemon) allSockets() (sockets.Passed, error) {
	all, err := d.front.Sockets()
	for _, s := range d.services {
		name := s.line.place(&d.c).Name()
		err = errors.Join(err, all.Add(name, s.ln, d.c.passed().Lent(name)))
	}
	return all, err
}

// give gives away what only one process can have, and waits until the new one has it.
func (h *handover) give(ctx context.Context) (err error) {
	d := h.d
	if err := d.windows.DiskAnswers(); err != nil {
		return err
	}
	d.windows.Quiet(true)
	h.paused = true
	d.pauseServices()
	freezing, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	h.since = time.Now()
	if h.moved, err = d.front.Mover().Freeze(freezing); err != nil {
		return fmt.Errorf("connections cannot be moved: %w", err)
	}
	h.frozen = true
	h.given = true
	given, err := d.windows.GiveAway()
	if err != nil {
		return err
	}
	h.child.Deadline(time.Now().Add(takeTimeout)) // clients wait: it may read nothing
	m := upgrade.Message{
		Kind: upgrade.Take, Floor: given.Floor, Ahead: int64(given.Ahead), Connections: len(h.moved),
	}
	if !d.windows.Leased() { // leased worker ids are not handed over
		if m.Places, err = json.Marshal(given.Places); err != nil {
			return err
		}
	}
	if err := h.child.Send(m); err != nil {
		return h.unsent(ctx, err)
	}
	for rest := h.moved; len(rest) > 0; {
		n := min(len(rest), upgrade.MaxDescriptors)
		m, fds := upgrade.Message{Kind: upgrade.Moved}, []int(nil)
		for _, c := range rest[:n] {
			m.Moved = append(m.Moved, upgrade.Connection{Port: c.Port, In: c.In, Out: c.Out, State: c.State})
			fds = append(fds, c.FD)
		}
		if err := h.child.Send(m, fds...); err != nil {
			return h.unsent(ctx, err)
		}
		rest = rest[n:]
	}
	last, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	_, err = h.child.Await(last, upgrade.Ready)
	return err
}

// pauseServices ends the services and the UDP port; requests under way get their answers.
func (d *Daemon) pauseServices() {
	var all sync.WaitGroup
	for _, s := range d.services {
		all.Go(func() { d.shut(s) })
	}
	d.front.PauseUDP()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(servicePause): // for example a profile that is being taken: it goes on
	}
}
