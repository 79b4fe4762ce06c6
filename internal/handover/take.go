package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
)

// Inherited is what another process has opened for this one. nil = nothing.
type Inherited struct {
	Sockets sockets.Passed
	// From is the process that gives them away, and its worker ids, see Take; nil = a supervisor.
	From Origin
	Died bool // From ended before it had passed all
}

// Succeeds reports whether this process is to succeed another one.
func (in *Inherited) Succeeds() bool { return in != nil && in.From != nil }

// Passed returns the sockets.
func (in *Inherited) Passed() sockets.Passed {
	if in == nil {
		return nil
	}
	return in.Sockets
}

// Loops returns how many event loops a process has that was to have n: a successor has as many as there are
// listeners of this name.
func (in *Inherited) Loops(name string, n int) int {
	if fds := in.Passed().Named(name); in.Succeeds() && len(fds) > 0 {
		return len(fds)
	}
	return n
}

// Check returns everything that is wrong with the sockets for these places. A process that this one succeeds
// must have passed all, unless it died. names are those of all places that there can be.
func (in *Inherited) Check(places []sockets.Place, names []string) error {
	if in == nil {
		return nil
	}
	return in.Sockets.Check(places, names, in.Succeeds() && !in.Died)
}

// Refuse tells the process that was to be succeeded why that cannot be.
func Refuse(o Origin, why error) {
	o.Deadline(time.Now().Add(time.Second))
	o.Send(upgrade.Message{Kind: upgrade.Refused, Why: why.Error()})
}

// Introduce reads what the process that is to be succeeded says first: its sockets, and its version.
func Introduce(o Origin) (*Inherited, error) {
	in := &Inherited{From: o}
	for {
		m, fds, err := o.Receive()
		if errors.Is(err, io.EOF) { // it died: this one goes on with what it has, see Take
			in.Died = true
			return in, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the previous process: %w", err)
		}
		switch {
		case m.Kind == upgrade.Sockets && len(fds) == len(m.Sockets):
			for i, fd := range fds {
				name := m.Sockets[i]
				in.Sockets = append(in.Sockets, sockets.Socket{Name: name, FD: fd, Lent: slices.Contains(m.Lent, name)})
			}
		case m.Kind == upgrade.Begin && m.Version != upgrade.Version:
			return nil, fmt.Errorf("the process that runs, of version %s, speaks version %d of the upgrade, this one %d: "+
				"restart instead", m.Program, m.Version, upgrade.Version)
		case m.Kind == upgrade.Begin:
			return in, nil
		default:
			return nil, heard{m, fds, nil}.refused()
		}
	}
}

// A Taker is the new side of an upgrade.
type Taker struct {
	c     Config
	o     Origin
	said  chan heard
	moved []server.Moved
	alone bool // the old process has died: what it gave until then is all
}

type heard struct {
	upgrade.Message
	fds []int
	err error
}

// Take gets ready, and takes over what the old process gives. The Holder of the windows must have started. Until Serve
// is called, this process issues nothing and touches no connection. If the old process dies, this one goes on with
// what it has: nobody else has it then.
func Take(ctx context.Context, c Config, o Origin) (*Taker, error) {
	t := &Taker{c: c, o: o, said: make(chan heard)}
	defer context.AfterFunc(ctx, func() { o.Close() })()
	go t.listen()
	err := t.prepare(ctx)
	if err == nil {
		err = t.take(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		closeMoved(t.moved)
		Refuse(o, err)
		if ctx.Err() != nil {
			o.Close() // the return may stop the AfterFunc before it has begun
		}
		go t.forget()
		return nil, err
	}
	return t, nil
}

// listen receives what the old process says, until its end.
func (t *Taker) listen() {
	defer close(t.said)
	for {
		m, fds, err := t.o.Receive()
		t.said <- heard{m, fds, err}
		if err != nil {
			return
		}
	}
}

// forget closes what the old process still sends, until its end.
func (t *Taker) forget() {
	for m := range t.said {
		upgrade.CloseAll(m.fds)
	}
	t.o.Close()
}

// prepare waits for leased worker ids, then says Hello.
func (t *Taker) prepare(ctx context.Context) error {
	if t.c.Windows.Leased() {
		alive := time.NewTicker(time.Second)
		defer alive.Stop()
		for waits := true; waits; {
			select {
			case <-t.c.Windows.Serving():
				waits = false
			case <-alive.C:
				t.o.Send(upgrade.Message{Kind: upgrade.Waiting, Why: t.c.Windows.Status()})
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return t.say(upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Program: t.c.Version,
		Fingerprint: t.c.Fingerprint, Counters: t.c.Counters})
}

// say sends a message. That the old process has died is no error.
func (t *Taker) say(m upgrade.Message) error {
	if err := t.o.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// take receives what the old process gives, and takes what it has let go.
func (t *Taker) take(ctx context.Context) error {
	given, err := t.receive(ctx)
	if err != nil {
		return err
	}
	handed, err := given.handed()
	if err != nil {
		return err
	}
	if err := t.c.Windows.TakeOver(ctx, handed, t.alone); err != nil {
		return err
	}
	if t.alone {
		return nil
	}
	if err := t.say(upgrade.Message{Kind: upgrade.Ready}); err != nil {
		return err
	}
	switch m, err := t.next(ctx); {
	case errors.Is(err, io.EOF):
		t.alone = true
	case err != nil:
		return err
	case m.Kind != upgrade.Serve:
		return m.refused()
	}
	return nil
}

// receive returns what the old process gives, without a Kind if it has ended before, and takes its connections.
func (t *Taker) receive(ctx context.Context) (given heard, err error) {
	for missing := 1; missing > 0; {
		m, err := t.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			t.alone, missing = true, 0
		case err != nil:
			return given, err
		case m.Kind == upgrade.Take && given.Kind == "":
			given, missing = m, m.Connections
		case m.Kind == upgrade.Moved && given.Kind != "" && len(m.fds) == len(m.Moved):
			for i, c := range m.Moved {
				t.moved = append(t.moved, server.Moved{Port: c.Port, FD: m.fds[i], In: c.In, Out: c.Out, State: c.State})
			}
			missing -= len(m.Moved)
		default:
			return given, m.refused()
		}
	}
	return given, nil
}

// handed returns where the old process was, or nil if it has not said that.
func (m heard) handed() (*windows.Handed, error) {
	if m.Kind == "" {
		return nil, nil
	}
	h := &windows.Handed{Floor: m.Floor, Ahead: time.Duration(m.Ahead)}
	if len(m.Places) > 0 {
		if err := json.Unmarshal(m.Places, &h.Places); err != nil {
			return nil, fmt.Errorf("the places of other layouts: %w", err)
		}
	}
	return h, nil
}

// refused closes what came with a message that is not understood.
func (m heard) refused() error {
	upgrade.CloseAll(m.fds)
	return fmt.Errorf("the previous process said %.40q, which this one does not understand", m.Kind)
}

// next returns what the old process says next.
func (t *Taker) next(ctx context.Context) (heard, error) {
	select {
	case m := <-t.said:
		return m, m.err
	case <-ctx.Done():
		return heard{}, ctx.Err()
	}
}

// Serve gives the connections to the Mover, says that this process serves, and ends the talk. The Mover must be
// serving, or about to.
func (t *Taker) Serve() {
	lost := 0
	for _, m := range t.moved {
		if err := t.adopt(m); err != nil {
			closeMoved([]server.Moved{m})
			t.c.Log.Warn("a connection is lost in the upgrade", "port", m.Port, "error", err)
			lost++
		}
	}
	if t.alone {
		t.c.Log.Warn("the previous process died: this one goes on", "connections",
			len(t.moved)-lost)
	} else {
		t.c.Log.Info("took over", "connections", len(t.moved)-lost, "from", os.Getppid())
	}
	if err := t.o.Detach(); err != nil {
		t.c.Log.Warn("errors go to the previous process", "error", err)
	}
	t.o.Send(upgrade.Message{Kind: upgrade.Serving})
	go t.forget() // its end is of no interest any more
}

// adopt makes the Mover serve a connection, once it serves.
func (t *Taker) adopt(m server.Moved) (err error) {
	for until := time.Now().Add(stepTimeout); time.Now().Before(until); time.Sleep(100 * time.Microsecond) {
		if err = t.c.Mover.Adopt(m); !errors.Is(err, server.ErrIdle) {
			return err
		}
	}
	return err
}
