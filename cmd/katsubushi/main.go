// Command katsubushi issues unique ids to any client that speaks memcached's or Redis's protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // it could not start or go on: an address in use, a disk that fails
	exitUsage   = 2 // it was told something that it cannot do
)

func main() {
	comparePasswords()
	os.Exit(run(os.Args[1:], variablesOf(os.Environ()), os.Stdout, os.Stderr))
}

// run is main, with all inputs of the process as arguments. What it writes may have come from a store, and
// go to a terminal.
func run(args []string, env variables, stdout, stderr io.Writer) int {
	stdout, stderr = visible.Writer{To: stdout}, visible.Writer{To: stderr}
	c := theDaemon()
	if len(args) > 0 {
		if named := subcommandNamed(args[0]); named != nil {
			c, args = named, args[1:]
		}
	}
	return c.start(args, env, os.Stdin, stdout, stderr)
}

// settled tells whether there are settings to serve with. If not, because something is wrong or only the version is
// wanted, it has printed that, and returns the exit code.
func (c *call) settled(said io.Writer) (code int, ok bool) {
	if c.version {
		return printVersion(c), false
	}
	if len(c.words) > 0 {
		c.noVerb(c.words[0], names(commands()))
	}
	if err := c.validate(); err != nil {
		fmt.Fprintln(said, "katsubushi cannot start with these settings:")
		fmt.Fprintln(said, err)
		fmt.Fprintln(said, "katsubushi -h all lists every setting.")
		c.warn(said)
		return exitUsage, false
	}
	return exitOK, true
}

func serve(c *call) int {
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		fmt.Fprintln(errorsTo(c.stderr), err)
		return exitUsage
	}
	said := errorsTo(c.stderr)
	var problems strings.Builder
	if origin != nil { // whoever asked for the upgrade reads them
		said = io.MultiWriter(said, &problems)
	}
	if code, ok := c.settled(said); !ok {
		if origin != nil {
			handover.Refuse(origin, errors.New(strings.TrimSpace(problems.String())))
		}
		return code
	}
	if err := inherit(c.parsed, origin); err != nil {
		fmt.Fprintln(errorsTo(c.stderr), err)
		if origin != nil {
			handover.Refuse(origin, err)
		}
		return exitUsage
	}
	log, queue := openLog(c.stderr, c.options)
	last := ending{queue, make(chan struct{}, 1)}
	defer last.inOrder()
	c.Log, c.LogDropped = log, queue.Dropped
	d, err := c.newDaemon()
	if err != nil {
		log.Log(context.Background(), levelFatal, "cannot start", "error", err)
		if origin != nil {
			handover.Refuse(origin, err)
		}
		if contradicts(err) {
			return exitUsage
		}
		return exitFailure
	}
	return c.runUntilSignal(d, last)
}

// contradicts reports whether an error says that a definition is not what the counter store has.
func contradicts(err error) bool {
	different := (*kinds.DifferentError)(nil)
	return errors.As(err, &different) || errors.Is(err, counter.ErrNode) || errors.Is(err, counter.ErrOrder)
}

// newDaemon returns a daemon that listens.
func (c *call) newDaemon() (*daemon.Daemon, error) {
	c.Version = version
	c.ComparePasswords = passwordComparer()
	// systemd's RuntimeDirectory=, of which there may be several
	c.RuntimeDir, _, _ = strings.Cut(c.env["RUNTIME_DIRECTORY"], ":")
	for _, note := range slices.Concat(c.notes, c.unknown) {
		c.Log.Warn(note)
	}
	c.Busy = sync.OnceFunc(growHeap)
	return daemon.New(c.Config)
}

// runUntilSignal serves until a signal or an error ends the daemon.
func (c *call) runUntilSignal(d *daemon.Daemon, last ending) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 4)
	// before the log can say that the daemon listens
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	manager := newSupervisor(c.Log)
	reload := func() {
		defer manager.reloading()()
		d.Reload()
	}
	stop := func() {
		manager.stopping()
		cancel()
	}
	go handleSignals(signals, reload, c.Log, stop, func() {
		d.Abandon()
		last.atOnce(os.Exit)
	})
	u := upgrader{d: d, log: c.Log, manager: manager, where: c.sayWhere}
	defer u.serve()()
	go manager.report(ctx, d.Serving(), d.Status, func() error { return c.ask(false) })
	go func() {
		select {
		case <-d.Serving():
			freeStartup()
		case <-ctx.Done():
		}
	}()
	if err := d.Run(ctx); err != nil {
		c.Log.Log(ctx, levelFatal, "stopped", "error", err)
		return exitFailure
	}
	c.Log.Info("stopped")
	return exitOK
}

// handleSignals stops the daemon in order at the first INT, TERM or QUIT, and exits at the second. HUP
// does not stop it.
func handleSignals(signals <-chan os.Signal, reload func(), log *slog.Logger, stop, exit func()) {
	due := make(chan struct{}, 1)
	defer close(due)
	go func() {
		for range due { // one after the other, and apart: reading a file may take for ever
			reload()
		}
	}()
	stopping := false
	for s := range signals {
		switch {
		case s == syscall.SIGHUP:
			select {
			case due <- struct{}{}:
			default: // one that will begin anyway
			}
		case stopping:
			log.Warn("second signal: exiting at once", "signal", s.String())
			exit()
		default:
			log.Info("stopping", "signal", s.String())
			stopping = true
			stop()
		}
	}
}
