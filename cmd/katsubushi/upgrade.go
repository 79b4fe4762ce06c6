package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// upgradeTimeout is how long a new process may take to get ready, if nobody says otherwise.
const upgradeTimeout = time.Minute

var upgradeIntro = `replaces a daemon on this host with a process of the installed program, without interruption. usage:
  katsubushi upgrade [-pid N] [-timeout ` + brief(upgradeTimeout) + `]
The new process has the arguments and the environment of the old one, and takes over its ports and connections. If it does not come
up, the old one goes on. Only root and the user of the daemon may ask. SIGUSR2 does the same, but only the log tells the outcome.
`

// upgradeDaemon asks a daemon for an upgrade, and says how it went.
func upgradeDaemon(c *call) int {
	switch {
	case len(c.problems) > 0: // a value that cannot be read is 0 here
	case c.pid < 0:
		c.problem("-pid %d: not a process", c.pid)
	case c.timeout < time.Second || c.timeout > time.Hour:
		c.problem("-timeout %v: 1s to 1h allowed", c.timeout)
	}
	if c.refused() {
		return exitUsage
	}
	text, err := c.upgrade()
	if err != nil {
		return c.fail(fmt.Errorf("upgrade: %w", err))
	}
	fmt.Fprintln(c.stdout, text)
	return exitOK
}

func (c *call) upgrade() (text string, err error) {
	if c.pid == 0 {
		if c.pid, err = onlyDaemon(); err != nil {
			return "", err
		}
	}
	text, err = control.Ask(c.pid, fmt.Sprintf("upgrade %v", c.timeout), c.timeout, c.timeout+time.Minute)
	if refusal := (*control.Refusal)(nil); errors.As(err, &refusal) {
		err = fmt.Errorf("refused, and process %d goes on: %w", c.pid, err)
	}
	return text, err
}

// onlyDaemon returns the process of the daemon of this host. Other users' are none to a user who has one.
func onlyDaemon() (int, error) {
	found, err := daemonsHere()
	if err != nil {
		return 0, err
	}
	if me := os.Geteuid(); me != 0 && slices.ContainsFunc(found, func(d control.Daemon) bool { return d.UID == me }) {
		found = slices.DeleteFunc(found, func(d control.Daemon) bool { return d.UID != me })
	}
	switch len(found) {
	case 0:
		return 0, errors.New("no daemon serves in this network namespace")
	case 1:
		return found[0].PID, nil
	}
	var list []string
	for _, d := range found {
		list = append(list, fmt.Sprintf("%d (user id %d)", d.PID, d.UID))
	}
	return 0, fmt.Errorf("several daemons serve here: choose one with -pid: %s", strings.Join(list, ", "))
}

// An upgrader lets new processes take over.
type upgrader struct {
	d       *daemon.Daemon
	log     *slog.Logger
	manager supervisor
	where   func(argument string, reply func(string, error))
}

// run tries it once. It calls reply when it is known how it went, before the daemon ends.
func (u *upgrader) run(timeout time.Duration, reply func(string, error)) {
	u.log.Info("upgrading", "program", os.Args[0])
	u.d.Upgrade(handover.Upgrade{
		Start:   func() (handover.Child, error) { return upgrade.Start(os.Args[0], os.Args, os.Stderr) },
		Timeout: timeout,
		Succeeded: func(s handover.Succession) {
			u.manager.succeeded(s.PID)
			pause := s.Pause.Round(100 * time.Microsecond)
			u.log.Info("upgraded", "pid", s.PID, "version", s.Program, "connections", s.Moved, "pause", pause)
			reply(fmt.Sprintf("process %d of version %s serves, with %d connections of process %d, after a pause of %v",
				s.PID, s.Program, s.Moved, os.Getpid(), pause), nil)
		},
		Failed: func(err error) {
			u.log.Error("not upgraded: this process goes on", "error", err)
			reply("", err)
		},
	})
}

// asked is run for `katsubushi upgrade`, which says how long the new process may take.
func (u *upgrader) asked(argument string, reply func(string, error)) {
	timeout, err := time.ParseDuration(argument)
	if err != nil || timeout <= 0 {
		reply("", fmt.Errorf("upgrade %q: upgrade TIMEOUT is understood, such as upgrade 1m0s", argument))
		return
	}
	u.run(timeout, reply)
}

// fleet is run for `katsubushi fleet`.
func (u *upgrader) fleet(_ string, reply func(string, error)) { reply(u.d.Fleet(fleetPatience)) }

// serve upgrades when it is asked, by a signal or through the control socket, until close.
func (u *upgrader) serve() (stop func()) {
	signals := make(chan os.Signal, 1)
	if upgradeSignal != nil { // else it is every signal
		signal.Notify(signals, upgradeSignal)
	}
	go func() {
		for range signals {
			u.run(upgradeTimeout, func(string, error) {})
		}
	}()
	opened := make(chan *control.Control, 1)
	go func() {
		<-u.d.Serving()
		c, err := control.Listen()
		if err != nil && !errors.Is(err, control.ErrUnsupported) {
			u.log.Warn("`katsubushi upgrade` will not find this daemon", "error", err)
		}
		if err == nil {
			opened <- c
			c.Serve(control.Commands{"upgrade": u.asked, "where": u.where, "fleet": u.fleet})
		}
	}()
	return func() {
		select {
		case c := <-opened:
			c.Close()
		default:
		}
	}
}

// inherit finds out what another process has opened for this one: a daemon that this one is to
// succeed, or a supervisor.
func inherit(p *parsed, origin *upgrade.Origin) (err error) {
	if origin != nil {
		if p.Inherited, err = handover.Introduce(origin); err != nil {
			return err
		}
		return p.follow(p.Inherited.Sockets)
	}
	return p.activate()
}
