package daemon

import (
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
)

// takeBack kills the new process and takes back what was given away. The error says that something of the
// new process is left, which may have it all, when this daemon is to stop: it does not serve again.
func (h *handover) takeBack(moved []server.Moved) error {
	d := h.d
	h.hold() // its deadline is not for what is said now
	slow := time.AfterFunc(takeTimeout/10, func() {
		if h.paused {
			d.c.Log.Error("nobody is answered until the new process has ended, which was killed", "pid", h.child.Pid())
		}
	})
	defer slow.Stop()
	err := h.child.End(d.running.ctx, h.served)
	switch {
	case err == nil:
		h.resume(moved)
	case h.paused:
		d.retired.Store(true)
		closeMoved(moved)
	}
	return err
}

// resume takes back what was given away. The new process has ended.
func (h *handover) resume(moved []server.Moved) {
	d := h.d
	server.Unblock(h.passed.Descriptors())
	if h.given {
		if err := d.windows.TakeBack(d.running.ctx, h.served); err != nil {
			d.running.fail(fmt.Errorf("after an upgrade that failed: %w", err))
			return
		}
	}
	if h.paused {
		if err := d.restartServices(h.passed); err != nil {
			d.running.fail(fmt.Errorf("after an upgrade that failed: %w", err))
			return
		}
	}
	if h.frozen {
		if err := d.front.Mover().Thaw(moved); err != nil {
			d.running.fail(fmt.Errorf("after an upgrade that failed: %w", err))
		}
	}
}

// restartServices serves the services' sockets and the UDP port again.
func (d *Daemon) restartServices(passed sockets.Passed) error {
	var again []listedService
	for _, s := range d.services {
		ln, err := passed.Listener(s.line.place(&d.c))
		if err != nil {
			return err
		}
		again = append(again, listedService{service: s.line.service(d), name: s.name, ln: ln, drains: s.drains, line: s.line})
	}
	d.services = again
	d.startServices(d.running.background, d.running.fail)
	return d.front.ResumeUDP(passed, d.running.fail)
}
