package storefaults

import (
	"context"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// RestoreWithHolders: an earlier state is restored while the holders are alive. The daemons that got
// their worker ids since then notice it.
func (w *World) RestoreWithHolders() {
	all := []*Daemon{w.Start()}
	w.serve(all...)
	old := w.Servers.(Disk).Save()
	all = append(all, w.Start())
	w.serve(all[1])
	w.Extended(all...)
	w.back(w.restore(old, func() {}), all...)
}

// RestoreWithNewcomer: the same, and a newcomer comes before everybody else.
func (w *World) RestoreWithNewcomer() {
	all := []*Daemon{w.Start()}
	w.serve(all...)
	old := w.Servers.(Disk).Save()
	all = append(all, w.Start())
	w.serve(all[1])
	w.Extended(all...)
	var newcomer *Daemon
	at := w.restore(old, func() { newcomer = w.Start() })
	w.back(at, append(all, newcomer)...)
}

// RestoreWithAllStopped: an earlier state is restored while all holders are stopped, and the operator
// says so before a newcomer is let in.
func (w *World) RestoreWithAllStopped() {
	first := w.Spawn()
	w.serve(first)
	old := w.Servers.(Disk).Save()
	second := w.Spawn()
	w.serve(first, second)
	w.Extended(first, second)
	first.Pause()
	second.Pause()
	at := w.restore(old, func() {})
	w.operator("lease restored", func(ctx context.Context, a workerid.Admin) error {
		_, err := a.(workerid.RestoredAdmin).Restored(ctx)
		return err
	})
	newcomer := w.Start()
	w.serve(newcomer)
	first.Resume()
	second.Resume()
	w.back(at, first, second)
	w.Extended(newcomer)
}

// restore returns the time in ms at which no server ran.
func (w *World) restore(copied string, beforehand func()) (at int64) {
	w.each(w.Kill)
	at = time.Now().UnixMilli()
	w.Servers.(Disk).Restore(copied)
	beforehand()
	w.each(w.Launch)
	w.Ready()
	return at
}

// back waits until everybody has a window that lies beyond all that were granted before a restore.
func (w *World) back(at int64, all ...*Daemon) {
	w.Helper()
	w.Until("everybody serves again", func() bool {
		for _, d := range all {
			s := d.lanes()[0]
			if s.State != workerid.Serving || s.Lo <= at {
				return false
			}
		}
		return true
	})
	w.Extended(all...)
}

// Wiped: all that was recorded is gone. Daemons serve to the end of their windows, and wait until
// somebody makes the pool.
func (w *World) Wiped() {
	all := w.fill()
	at := w.restore("", func() {})
	for _, d := range all {
		w.Until("it wants a pool", func() bool {
			s := d.lanes()[0]
			return strings.Contains(s.Reason, cas.ErrNotInitialised.Error())
		})
	}
	w.operator("lease init", func(ctx context.Context, a workerid.Admin) error {
		_, err := a.Init(ctx, workerid.InitWait)
		return err
	})
	w.back(at, all...)
}

// ClockAtStart: a daemon starts with a clock that is wrong while others have the right one. It gets
// nothing until it is set right.
func (w *World) ClockAtStart(ahead time.Duration) {
	right := w.Start()
	w.serve(right)
	var wrong *Daemon
	// There is no clock to compare with if the others are not heard while it watches, as on a machine that stands still.
	for tries, refused := uint64(1), false; !refused; tries++ {
		if wrong != nil {
			wrong.Stop()
		}
		wrong = w.StartWith(1, ahead)
		w.Until("the clock is refused", func() bool {
			refused = strings.Contains(wrong.lanes()[0].Reason, workerid.ErrSkew.Error())
			return refused || wrong.Serves() && tries < w.terms.Max-1
		})
	}
	wrong.Clock(0)
	w.serve(wrong)
	w.Extended(right)
	right.MustNotRefuse()
}

// ClockWhileRunning: a holder's clock is set, and set right.
func (w *World) ClockWhileRunning(ahead time.Duration) {
	right, wrong := w.Start(), w.Start()
	w.serve(right, wrong)
	was := w.View().Records[wrong.Worker()]
	wrong.Clock(ahead)
	w.Until("it has extended its lease by that clock", func() bool { return w.View().Records[wrong.Worker()] != was })
	w.Extended(right)
	wrong.Clock(0)
	w.serve(right)
	w.Extended(right)
	right.MustNotRefuse()
	wrong.Stop()
	next := w.Start()
	w.serve(next)
}
