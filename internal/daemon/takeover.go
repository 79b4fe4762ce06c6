package daemon

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

// Refuse tells the process that was to be succeeded why that cannot be.
func Refuse(o *upgrade.Origin, why error) {
	o.Deadline(time.Now().Add(time.Second))
	o.Send(upgrade.Message{Kind: upgrade.Refused, Why: why.Error()})
}

// Introduce reads what the process that is to be succeeded says first: its sockets, and its version.
func Introduce(o *upgrade.Origin) (*Inherited, error) {
	in := &Inherited{From: o}
	for {
		m, fds, err := o.Receive()
		if errors.Is(err, io.EOF) { // it died: this one goes on with what it has, see takeOver
			in.Died = true
			return in, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the process that is to be succeeded: %w", err)
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
			upgrade.CloseAll(fds)
			return nil, fmt.Errorf("the process that is to be succeeded said %.40q, which is not understood", m.Kind)
		}
	}
}

// A taking is the new side of an upgrade, see handover.
type taking struct {
	d     *Daemon
	o     *upgrade.Origin
	said  chan heard
	moved []server.Moved
	alone bool // the old process has died: what it gave until then is all
}

type heard struct {
	upgrade.Message
	fds []int
	err error
}

// takeOver gets ready, and takes over what the old process gives. Until serving is called, this
// process issues nothing and touches no connection. If the old process dies, this one goes on with
// what it has: nobody else has it then.
func (d *Daemon) takeOver(ctx context.Context) (*taking, error) {
	t := &taking{d: d, o: d.c.origin(), said: make(chan heard)}
	defer context.AfterFunc(ctx, func() { t.o.Close() })()
	go t.listen()
	err := t.prepare(ctx)
	if err == nil {
		err = t.take(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		for _, m := range t.moved {
			upgrade.CloseAll([]int{m.FD})
		}
		Refuse(t.o, err)
		return nil, err
	}
	return t, nil
}

func (t *taking) listen() {
	for {
		m, fds, err := t.o.Receive()
		t.said <- heard{m, fds, err}
		if err != nil {
			return
		}
	}
}

// prepare waits for leased worker ids, then says Hello.
func (t *taking) prepare(ctx context.Context) error {
	d := t.d
	if d.c.leased() {
		alive := time.NewTicker(time.Second)
		defer alive.Stop()
		for waits := true; waits; {
			select {
			case <-d.windows.Serving():
				waits = false
			case <-alive.C:
				t.o.Send(upgrade.Message{Kind: upgrade.Waiting, Why: d.Status()})
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	err := t.o.Send(upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Program: d.c.Version,
		Fingerprint: d.c.Layout.Fingerprint()})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// take receives what the old process gives, and takes what it has let go.
func (t *taking) take(ctx context.Context) error {
	given, err := t.receive(ctx)
	if err != nil {
		return err
	}
	handed, err := given.handed()
	if err != nil {
		return err
	}
	if err := t.d.windows.TakeOver(ctx, handed, t.alone); err != nil {
		return err
	}
	if t.alone {
		return nil
	}
	if err := t.o.Send(upgrade.Message{Kind: upgrade.Ready}); err != nil && !errors.Is(err, io.EOF) {
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
func (t *taking) receive(ctx context.Context) (given heard, err error) {
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
	return fmt.Errorf("the process that is to be succeeded said %.40q, which is not understood", m.Kind)
}

// next returns what the old process says next.
func (t *taking) next(ctx context.Context) (heard, error) {
	select {
	case m := <-t.said:
		return m, m.err
	case <-ctx.Done():
		return heard{}, ctx.Err()
	}
}

// serving adopts the connections, says that this process serves, and ends the talk. The engine must be
// serving, or about to.
func (t *taking) serving() {
	d, lost := t.d, 0
	for _, m := range t.moved {
		if err := d.adopt(m); err != nil {
			upgrade.CloseAll([]int{m.FD})
			d.c.Log.Warn("a connection is lost in the upgrade", "port", m.Port, "error", err)
			lost++
		}
	}
	if t.alone {
		d.c.Log.Warn("the process that was to be succeeded died: this one goes on", "connections", len(t.moved)-lost)
	} else {
		d.c.Log.Info("took over", "connections", len(t.moved)-lost, "from", os.Getppid())
	}
	if err := t.o.Detach(); err != nil {
		d.c.Log.Warn("errors go to the process before this one", "error", err)
	}
	t.o.Send(upgrade.Message{Kind: upgrade.Serving})
	go func() { // its end is of no interest any more
		for m := range t.said {
			if m.err != nil {
				t.o.Close()
				return
			}
			upgrade.CloseAll(m.fds)
		}
	}()
}

// adopt makes the engine serve a connection, once it serves.
func (d *Daemon) adopt(m server.Moved) (err error) {
	for until := time.Now().Add(takeTimeout); time.Now().Before(until); time.Sleep(100 * time.Microsecond) {
		if err = d.front.Mover().Adopt(m); !errors.Is(err, server.ErrIdle) {
			return err
		}
	}
	return err
}
