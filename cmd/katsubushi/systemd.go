package main

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// A supervisor is systemd, if the unit has Type=notify: see sd_notify(3). Without one, its methods do
// nothing. Any goroutine may use it.
type supervisor struct {
	log      *slog.Logger
	interval time.Duration // between two reports
	watchdog bool          // it wants signs of life, and kills without them
}

// reportInterval is how old the text of `systemctl status` may be.
const reportInterval = 10 * time.Second

// newSupervisor reads what systemd wants from the environment.
func newSupervisor(log *slog.Logger) supervisor {
	s := supervisor{log: log, interval: reportInterval}
	limit, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("systemd gets no watchdog signals", "error", err)
	}
	if limit > 0 {
		s.watchdog, s.interval = true, min(limit/3, reportInterval)
	}
	return s
}

func (s supervisor) tell(lines ...string) {
	if _, err := sd.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		s.log.Warn("systemd cannot be told", "error", err)
	}
}

// report says when the ports are open, and from the start what the daemon does. It sends signs of
// life as long as alive returns nil. It returns when ctx ends.
func (s supervisor) report(ctx context.Context, serving <-chan struct{}, status func() string, alive func() error) {
	ticks := time.NewTicker(s.interval)
	defer ticks.Stop()
	for ready := false; ; {
		lines := []string{"STATUS=" + strings.ReplaceAll(status(), "\n", "; ")}
		if ready && s.watchdog {
			if err := alive(); err != nil {
				s.log.Warn("no watchdog signal for systemd", "error", err)
			} else {
				lines = append(lines, sd.SdNotifyWatchdog)
			}
		}
		s.tell(lines...)
		select {
		case <-serving:
			ready, serving = true, nil
			s.tell(sd.SdNotifyReady)
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// reloading says that files are read anew. The caller calls the returned function when that is done.
func (s supervisor) reloading() (done func()) {
	s.tell(sd.SdNotifyReloading, strings.TrimSpace(sd.SdNotifyMonotonicUsec()))
	return func() { s.tell(sd.SdNotifyReady) }
}

// succeeded says that another process is the service's main one now.
func (s supervisor) succeeded(pid int) { s.tell("MAINPID=" + strconv.Itoa(pid)) }

func (s supervisor) stopping() { s.tell(sd.SdNotifyStopping) }
