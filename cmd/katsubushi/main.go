// Command katsubushi issues unique ids to any client that speaks memcached's or Redis's protocol.
package main

import (
	"cmp"
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
	"time"

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
	out := &writing{to: visible.Writer{To: stdout}}
	stderr = visible.Writer{To: stderr}
	c := theDaemon()
	if len(args) > 0 {
		if named := subcommandNamed(args[0]); named != nil {
			c, args = named, args[1:]
		}
	}
	code := c.start(args, env, os.Stdin, out, stderr)
	if out.err != nil { // what it did is done; a token, for example, is nowhere now
		fmt.Fprintln(stderr, "katsubushi: its output is not whole:", out.err)
		code = max(code, exitFailure)
	}
	return code
}

// A writing keeps the last error of its writer.
type writing struct {
	to  io.Writer
	err error
}

func (w *writing) Write(text []byte) (n int, err error) {
	if n, err = w.to.Write(text); err != nil {
		w.err = err
	}
	return n, err
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

// startLimit is how long a start that was told to stop may take to close what it has opened.
const startLimit = time.Second

// begun is what a start came to. d is nil if the process ends, with code.
type begun struct {
	d    *daemon.Daemon
	last ending
	code int
}

// signals are those that the daemon takes. One to reload waits until the daemon runs.
type signals struct{ reload, stop chan os.Signal }

// serve is the daemon. It takes signals from the beginning: a start may wait for a store, or for ever for a file.
func serve(c *call) int {
	taken := signals{make(chan os.Signal, 1), make(chan os.Signal, 4)}
	signal.Notify(taken.reload, syscall.SIGHUP)
	signal.Notify(taken.stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan begun, 1)
	go func() { ready <- c.begin(ctx) }()
	var late <-chan time.Time
	for {
		select {
		case b := <-ready:
			if b.d == nil {
				signal.Stop(taken.stop) // the process may be that of a test
				return b.code
			}
			return c.runUntilSignal(ctx, b, taken)
		case s := <-taken.stop:
			slog.Info("stopping", "signal", s.String()) // to c.Log, once there is one
			cancel()
			late = cmp.Or(late, time.After(startLimit))
		case <-late:
			return exitOK
		}
	}
}

// begin reads the settings, and opens everything. If ctx ends meanwhile, that is no failure.
func (c *call) begin(ctx context.Context) (b begun) {
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		fmt.Fprintln(errorsTo(c.stderr), err)
		return begun{code: exitUsage}
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
		return begun{code: code}
	}
	if err := inherit(c.parsed, origin); err != nil {
		fmt.Fprintln(errorsTo(c.stderr), err)
		if origin != nil {
			handover.Refuse(origin, err)
		}
		return begun{code: exitUsage}
	}
	log, queue := openLog(c.stderr, c.options)
	b.last = ending{queue, make(chan struct{}, 1)}
	c.Log, c.LogDropped = log, queue.Dropped
	if b.d, err = c.newDaemon(ctx); err == nil {
		return b
	}
	defer b.last.inOrder()
	switch {
	case contradicts(err):
		b.code = exitUsage
	case ctx.Err() != nil:
		log.Info("stopped")
	default:
		b.code = exitFailure
	}
	if b.code != exitOK {
		log.Log(ctx, levelFatal, "cannot start", "error", err)
	}
	if origin != nil {
		handover.Refuse(origin, err)
	}
	return b
}

// contradicts reports whether an error says that a definition is not what the counter store has.
func contradicts(err error) bool {
	different := (*kinds.DifferentError)(nil)
	return errors.As(err, &different) || errors.Is(err, counter.ErrNode) || errors.Is(err, counter.ErrOrder)
}

// newDaemon returns a daemon that listens.
func (c *call) newDaemon(ctx context.Context) (*daemon.Daemon, error) {
	c.Version = version
	c.ComparePasswords = passwordComparer()
	// systemd's RuntimeDirectory=, of which there may be several
	c.RuntimeDir, _, _ = strings.Cut(c.env["RUNTIME_DIRECTORY"], ":")
	for _, note := range slices.Concat(c.notes, c.unknown) {
		c.Log.Warn(note)
	}
	c.Busy = sync.OnceFunc(growHeap)
	return daemon.New(ctx, c.Config)
}

// runUntilSignal serves until a signal or an error ends the daemon.
func (c *call) runUntilSignal(ctx context.Context, b begun, taken signals) int {
	defer b.last.inOrder()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := b.d
	manager := newSupervisor(c.Log)
	go func() { // one after the other, and apart: reading a file may take for ever
		for range taken.reload {
			done := func() {}
			select {
			case <-d.Serving(): // or else the end of the reload would be READY
				done = manager.reloading()
			default:
			}
			d.Reload()
			done()
		}
	}()
	stop := func() {
		manager.stopping()
		cancel()
	}
	go handleSignals(taken.stop, c.Log, stop, func() {
		d.Abandon()
		b.last.atOnce(os.Exit)
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

// handleSignals stops the daemon in order at the first INT, TERM or QUIT, and exits at the second.
func handleSignals(signals <-chan os.Signal, log *slog.Logger, stop, exit func()) {
	stopping := false
	for s := range signals {
		switch {
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
