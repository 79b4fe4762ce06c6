package leaserun

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Exit codes besides the program's own, which is 128 + the signal's number if a signal ended it.
const (
	ExitLeaseOver   = 75 // EX_TEMPFAIL: the program was ended because of its lease. Start it again
	ExitCannotStart = 126
	ExitNotFound    = 127
)

// WorkerIDVariable is the environment variable that gives the program its worker id.
const WorkerIDVariable = "KATSUBUSHI_WORKER_ID"

// Config holds the settings of Run.
type Config struct {
	Store     workerid.Store
	Request   workerid.Request
	Lease     time.Duration // the store's: how far a window reaches into the future
	Heartbeat time.Duration // mean time between two extensions
	// how far the program's clock may be off, or its ids ahead of the clock: minMargin to a quarter of
	// the lease
	Margin      time.Duration
	StopTimeout time.Duration // how long the program has to end after SIGTERM, before it is killed
	Command     []string      // a program and its arguments
	Hidden      []string      // the environment's variables that the program does not get
	Replacement string        // replaced by the worker id in the arguments; empty = nothing is replaced
	Signals     <-chan os.Signal
	Now         func() int64 // the clock that the program uses, Unix ms: the wall clock
	// for the lease, and the Store must use it too: a step of the wall clock does not reach it at
	// once. Run calls its Run
	Clock *clock.Clock
	Log   *slog.Logger

	cgroups string // the parent directory of the program's cgroup; empty: this process's cgroup
}

// minMargin is the least Margin, because looking at the clock and killing take time.
const minMargin = 2 * lookEvery

// Validate returns everything that is wrong with the settings, as an error of package problem.
func (c *Config) Validate() error {
	var problems problem.List
	if len(c.Command) == 0 {
		problems.Add("", "no command is given")
	}
	if c.Margin < minMargin || c.Margin > c.Lease/4 {
		problems.Add("Margin", "a margin of %v: %v to a quarter of the lease, %v, allowed", c.Margin, minMargin, c.Lease/4)
	}
	if c.StopTimeout < 0 {
		problems.Add("StopTimeout", "a stop timeout of %v is not possible", c.StopTimeout)
	}
	return problems.Err()
}

// Run leases a worker id, waiting for one as long as necessary, runs the program once and gives the
// worker id back. It returns the exit code for this process and, with some codes, the reason. Signals
// are forwarded to the program; a signal to stop that arrives before its start ends Run. On Linux, Run
// treats all children that this process gets after the start of Run as the program's. Once the program
// has started, this process ignores the signals by which a terminal stops processes.
func Run(c Config) (code int, err error) {
	if err := c.Validate(); err != nil {
		return ExitCannotStart, err
	}
	if _, err := exec.LookPath(c.Command[0]); err != nil { // check before taking a worker id for nothing
		return startCode(err), err
	}
	r := &runner{c: &c, terms: newTerms(&c), wake: make(chan struct{}, 1)}
	r.cgroup, r.noCgroup = newCgroup(c.cgroups)
	defer r.cgroup.remove()
	keeper := workerid.NewKeeper(workerid.Config{
		Store: store{c.Store, r}, Lanes: r, Requests: []workerid.Request{c.Request}, Now: c.Clock.Now, Heartbeat: c.Heartbeat,
		Log: c.Log,
	})
	var background sync.WaitGroup
	defer background.Wait()
	ticking, stop := context.WithCancel(context.Background())
	defer stop()
	background.Go(func() { c.Clock.Run(ticking, r.position, c.Log) })
	keeping, giveBack := context.WithCancel(context.Background())
	defer giveBack()
	kept := make(chan error, 1)
	go func() { kept <- keeper.Run(keeping) }()
	code, err = r.supervise()
	giveBack()
	if err := <-kept; err != nil {
		c.Log.Warn("the worker id is not given back: it is free when its lease ends", "error", err)
	}
	return code, err
}

// startCode is the exit code that shells use for a program that does not start.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitCannotStart
}

// command makes the program's command line with its worker id.
func (c *Config) command(worker uint64) *exec.Cmd {
	id := strconv.FormatUint(worker, 10)
	args := append([]string(nil), c.Command[1:]...)
	if c.Replacement != "" {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], c.Replacement, id)
		}
	}
	cmd := exec.Command(c.Command[0], args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), c.hides), WorkerIDVariable+"="+id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// hides reports whether the program does not get a variable: NAME=VALUE.
func (c *Config) hides(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(c.Hidden, name)
}

// A store tells the runner about a lost lease, and refuses a second lease: the program keeps one worker
// id for its whole life.
type store struct {
	workerid.Store
	r *runner
}

var errOneLease = errors.New("the program has had its lease")

func (s store) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if s.r.started() {
		return workerid.Grant{}, errOneLease
	}
	return s.Store.Acquire(ctx, want)
}

func (s store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	results, err := s.Store.Extend(ctx, held)
	s.r.heard(err)
	for _, r := range results {
		s.r.heard(r.Err)
	}
	return results, err
}
