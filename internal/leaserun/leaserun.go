package leaserun

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Exit codes beside the program's own; 128 + the signal's number if that ended it.
const (
	ExitLeaseOver   = 75 // EX_TEMPFAIL: the program had to end because of its lease. Start again
	ExitCannotStart = 126
	ExitNotFound    = 127
)

// WorkerIDVariable is the environment variable in which the program finds its worker id.
const WorkerIDVariable = "KATSUBUSHI_WORKER_ID"

// Config is what Run is told.
type Config struct {
	Store       workerid.Store
	Request     workerid.Request
	Lease       time.Duration // the store's: how far a window reaches into the future
	Heartbeat   time.Duration // mean time between two extensions
	Margin      time.Duration // how far the program's clock may be off, or its ids ahead of the clock: MinMargin to a quarter of the lease
	StopTimeout time.Duration // for the program to end after a TERM, before it is killed
	Command     []string      // a program and its arguments
	Replacement string        // stands for the worker id in the arguments; empty = nothing does
	Signals     <-chan os.Signal
	Now         func() int64 // the clock that the program goes by, Unix ms: the wall clock
	Clock       *clock.Clock // that the lease is kept by, and Store too: no step of the wall clock reaches it at once. Run runs it
	Log         *slog.Logger

	cgroups string // the directory for the program's cgroup; empty: that of this process
}

// MinMargin is the least Margin: looking at the clock and killing take their time.
const MinMargin = 2 * lookEvery

// Validate finds everything that is wrong with the settings. The error is of package problem.
func (c *Config) Validate() error {
	var problems problem.List
	if len(c.Command) == 0 {
		problems.Add("", "no command is given")
	}
	if c.Margin < MinMargin || c.Margin > c.Lease/4 {
		problems.Add("Margin", "a margin of %v: %v to a quarter of the lease, %v, allowed", c.Margin, MinMargin, c.Lease/4)
	}
	if c.StopTimeout < 0 {
		problems.Add("StopTimeout", "a stop timeout of %v is not possible", c.StopTimeout)
	}
	return problems.Err()
}

// Run leases a worker id, waiting for one as long as it takes, runs the program once and gives the worker id back. It returns the exit
// code that this process should have, and with some of them the reason. Signals go to the program; those that come before its start and
// mean to stop end Run. On Linux all children that this process gets after the start of Run are taken for the program's. From the start of
// the program on this process ignores the signals by which a terminal stops processes.
func Run(c Config) (code int, err error) {
	if err := c.Validate(); err != nil {
		return ExitCannotStart, err
	}
	if _, err := exec.LookPath(c.Command[0]); err != nil { // before a worker id is taken for nothing
		return startCode(err), err
	}
	r := &runner{c: &c, terms: newTerms(&c), wake: make(chan struct{}, 1)}
	r.cgroup, r.noCgroup = newCgroup(c.cgroups)
	defer r.cgroup.remove()
	keeper := workerid.NewKeeper(workerid.Config{
		Store: store{c.Store, r}, Lanes: r, Requests: []workerid.Request{c.Request}, Now: c.Clock.Now, Heartbeat: c.Heartbeat, Log: c.Log,
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
		c.Log.Warn("the worker id is not given back: it comes free when its lease ends", "error", err)
	}
	return code, err
}

// startCode is the shells' code for a program that does not start.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitCannotStart
}

// command is the program with its worker id in place.
func (c *Config) command(worker uint64) *exec.Cmd {
	id := strconv.FormatUint(worker, 10)
	args := append([]string(nil), c.Command[1:]...)
	if c.Replacement != "" {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], c.Replacement, id)
		}
	}
	cmd := exec.Command(c.Command[0], args...)
	cmd.Env = append(os.Environ(), WorkerIDVariable+"="+id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// A store tells the runner of a lost lease, and refuses a second one: the program has one worker id, for good.
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
