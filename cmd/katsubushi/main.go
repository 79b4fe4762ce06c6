// Command katsubushi issues unique ids to any client that speaks memcached's or Redis's protocol.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
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
	if len(args) > 0 {
		if c := subcommandNamed(args[0]); c != nil {
			return c.run(args[1:], env, stdout, stderr)
		}
	}
	return serve(args, env, stdout, stderr)
}

func versionFlag(show *bool) func(*flag.FlagSet) {
	return func(fs *flag.FlagSet) {
		fs.BoolVar(show, "version", false,
			"print the version, the commit and its date, and the version of Go that it was built with, and exit")
	}
}

// parseServe reads the settings of a daemon. If there is nothing to serve, because something is wrong
// or only -help or -version is wanted, it has printed that, and returns the exit code and no settings.
func parseServe(args []string, env variables, stdout, stderr io.Writer) (*parsed, int) {
	var showVersion bool
	p, fs, err := parse(settings(), args, env, versionFlag(&showVersion))
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(fs, stdout)
		return nil, exitOK
	case showVersion:
		info, _ := debug.ReadBuildInfo()
		io.WriteString(stdout, describeVersion(info, commit))
		return nil, exitOK
	case len(p.args) > 0:
		p.problems = append(p.problems,
			fmt.Errorf("%q: not a flag, nor a subcommand (%s)", p.args[0], strings.Join(names(commands()), ", ")))
	}
	if err := p.validate(); err != nil {
		fmt.Fprintln(stderr, "katsubushi cannot start with these settings:")
		fmt.Fprintln(stderr, err)
		fmt.Fprintln(stderr, "katsubushi -help lists every setting.")
		p.warn(stderr)
		return nil, exitUsage
	}
	return p, exitOK
}

func serve(args []string, env variables, stdout, stderr io.Writer) int {
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		fmt.Fprintln(errorsTo(stderr), err)
		return exitUsage
	}
	said := errorsTo(stderr)
	var problems strings.Builder
	if origin != nil { // whoever asked for the upgrade reads them
		said = io.MultiWriter(said, &problems)
	}
	p, code := parseServe(args, env, stdout, said)
	if p == nil {
		if origin != nil {
			daemon.Refuse(origin, errors.New(strings.TrimSpace(problems.String())))
		}
		return code
	}
	if err := inherit(p, origin); err != nil {
		fmt.Fprintln(errorsTo(stderr), err)
		if origin != nil {
			daemon.Refuse(origin, err)
		}
		return exitUsage
	}
	p.Version = version
	p.ComparePasswords = passwordComparer()
	// systemd's RuntimeDirectory=, of which there may be several
	p.RuntimeDir, _, _ = strings.Cut(env["RUNTIME_DIRECTORY"], ":")
	log, queue := openLog(stderr, p.options)
	last := ending{queue, make(chan struct{}, 1)}
	defer last.inOrder()
	p.Log, p.LogDropped = log, queue.Dropped
	for _, note := range slices.Concat(p.notes, p.unknown) {
		p.Log.Warn(note)
	}

	if p.GRPCPort != 0 {
		growHeap()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d, err := daemon.New(p.Config)
	if err != nil {
		p.Log.Log(ctx, levelFatal, "cannot start", "error", err)
		if origin != nil {
			daemon.Refuse(origin, err)
		}
		if different := (*stores.DifferentError)(nil); errors.As(err, &different) {
			return exitUsage
		}
		return exitFailure
	}
	signals := make(chan os.Signal, 4)
	// before the log can say that the daemon listens
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	manager := newSupervisor(p.Log)
	reload := func() {
		defer manager.reloading()()
		d.Reload()
	}
	stop := func() {
		manager.stopping()
		cancel()
	}
	go handleSignals(signals, reload, p.Log, stop, func() {
		d.Abandon()
		last.atOnce(os.Exit)
	})
	u := upgrader{d: d, log: p.Log, manager: manager, where: p.sayWhere}
	defer u.serve()()
	go manager.report(ctx, d.Serving(), d.Status, func() error { return p.ask(false) })
	if err := d.Run(ctx); err != nil {
		p.Log.Log(ctx, levelFatal, "stopped", "error", err)
		return exitFailure
	}
	p.Log.Info("stopped")
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
