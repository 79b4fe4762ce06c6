//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/order"
)

// A follower is a cluster client that runs while leaders change. It prints a line for each request, with
// the times of CLOCK_MONOTONIC in ns before and after it, until its standard input ends:
//
//	value NAME BEGIN END LAST N
//	error NAME BEGIN END TEXT
type follower struct {
	setup  *setup
	cmd    *exec.Cmd
	input  io.Closer
	stderr bytes.Buffer
	read   chan error // the first line that was wrong, or nil at the end

	mu       sync.Mutex
	answered []order.Request
	refused  []refusal
	newest   map[string]int64 // when the last request began that was answered, by name
}

// A refusal is a request that a client gave up.
type refusal struct {
	begin, end int64
	text       string
}

// A window is a time in which the docs let a client be refused: from when leaders begin to change until every
// name is issued, and until the client has found out where.
type window struct {
	what               string
	begin, issued, end int64
}

// mostLate is how many requests a client may be refused that it sends when every name is issued again, before
// it has found out where: one for each name and worker.
const mostLate = 5 * 4

// follow runs a cluster client while all groups are handed over, a leader is killed and comes back.
func (r *runner) follow(ctx context.Context, s *setup) (_ string, err error) {
	if r.fleet == nil {
		if r.fleet, err = r.startFleet(); err != nil {
			r.fleet = nil
			return "", err
		}
	}
	f := r.fleet
	if err := f.mend(); err != nil {
		return "", err
	}
	if err := f.served(f.daemons[0]); err != nil {
		return "", err
	}
	c, err := r.startFollower(ctx, s)
	if err != nil {
		return "", err
	}
	windows, err := f.disturb(ctx, c)
	if err2 := c.end(); err == nil {
		err = err2
	}
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, indent(c.stderr.String()))
	}
	r.followed = append(r.followed, c.answered...)
	return c.judge(windows, r.followed)
}

// startFollower builds and starts a client.
func (r *runner) startFollower(ctx context.Context, s *setup) (*follower, error) {
	work := filepath.Join(r.work, s.dir())
	if err := os.MkdirAll(work, 0o777); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "NODES="+r.fleet.addresses(), "WORK="+work,
		"NODE_PATH="+filepath.Join(r.work, "node", "node_modules"))
	if s.build != "" {
		if out, err := r.shell(ctx, s.build, env, buildLimit); err != nil {
			return nil, fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	c := &follower{setup: s, cmd: exec.Command("sh", "-ec", s.run), read: make(chan error, 1), newest: map[string]int64{}}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = r.source, env, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(work, "output"))
	if err != nil {
		return nil, err
	}
	go func() {
		defer output.Close()
		c.read <- c.lines(io.TeeReader(stdout, output))
	}()
	return c, nil
}

// lines reads what the client prints.
func (c *follower) lines(from io.Reader) (err error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if wrong := c.line(strings.Fields(lines.Text())); wrong != nil && err == nil {
			err = fmt.Errorf("%q: %w", lines.Text(), wrong)
		}
	}
	return errors.Join(err, lines.Err())
}

func (c *follower) line(words []string) error {
	if len(words) < 5 {
		return errors.New("too short")
	}
	begin, err := strconv.ParseInt(words[2], 10, 64)
	end, err2 := strconv.ParseInt(words[3], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name, rest := words[1], words[4:]
	if words[0] == "error" {
		c.refused = append(c.refused, refusal{begin, end, name + ": " + strings.Join(rest, " ")})
		return nil
	}
	if words[0] != "value" || len(rest) != 2 {
		return errors.New("neither a value nor an error")
	}
	last, err := strconv.ParseUint(rest[0], 10, 64)
	n, err2 := strconv.Atoi(rest[1])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	c.newest[name] = max(c.newest[name], begin)
	c.answered = append(c.answered,
		order.Request{Name: name, Begin: begin, End: end, First: last - uint64(n) + 1, Stride: 1, N: n, Where: c.setup.name})
	return nil
}

// goesOn waits until the client was answered to a request for every name that began from now on.
func (c *follower) goesOn(when string) error {
	now := monotonic()
	return eventually(when+": the client gets values of every name", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.newest["free"] >= now && !slices.ContainsFunc(strictNames, func(name string) bool {
			return c.newest[name] < now
		})
	})
}

// end ends the client, which must not have ended before.
func (c *follower) end() error {
	c.input.Close()
	kill := time.AfterFunc(startLimit, func() { syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()
	return errors.Join(<-c.read, c.cmd.Wait())
}

// disturb changes leaders while the client runs. It returns when the client may have been refused.
func (f *fleet) disturb(ctx context.Context, c *follower) (windows []window, err error) {
	if err := c.goesOn("at first"); err != nil {
		return nil, err
	}
	change := func(what string, through *daemon, how func() error) error {
		w := window{what: what, begin: monotonic()}
		if err := how(); err != nil {
			return err
		}
		if err := f.served(through); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		w.issued = monotonic()
		if err := c.goesOn(what); err != nil {
			return err
		}
		w.end = monotonic()
		windows = append(windows, w)
		return nil
	}
	if err := change("a demotion", f.daemons[0], func() error { return f.demote(ctx) }); err != nil {
		return nil, err
	}
	victim := f.leader(strictNames[0])
	if victim < 0 {
		return nil, fmt.Errorf("nobody leads %s", strictNames[0])
	}
	killed, other := f.daemons[victim], f.daemons[(victim+1)%len(f.daemons)]
	err = change("a kill", other, func() error {
		killed.Kill()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := f.restart(victim); err != nil {
		return nil, err
	}
	// It is given groups again, so the client has to come back to it.
	err = change("its return", other, func() error {
		return eventually(killed.address()+" leads again", func() bool {
			return f.demote(ctx) == nil && slices.ContainsFunc(strictNames, func(name string) bool {
				return f.leader(name) == victim
			})
		})
	})
	return windows, err
}

// judge says what is wrong with what the client saw, or what it saw. all are also the answers of others.
func (c *follower) judge(windows []window, all []order.Request) (string, error) {
	if err := order.Twice(all); err != nil {
		return "", err
	}
	var strict []order.Request
	for _, q := range all {
		if q.Name != "free" {
			strict = append(strict, q)
		}
	}
	if err := order.Inverted(strict); err != nil {
		return "", err
	}
	inside, late := make([]int, len(windows)), make([]int, len(windows))
	for _, no := range c.refused {
		i := slices.IndexFunc(windows, func(w window) bool { return no.end >= w.begin && no.begin <= w.end })
		if i < 0 {
			return "", fmt.Errorf("refused %s: %s", no.when(windows), no.text)
		}
		inside[i]++
		if no.begin > windows[i].issued {
			late[i]++
		}
		if late[i] > mostLate {
			return "", fmt.Errorf("refused %d times more after %s, when every name was issued: %s", late[i], windows[i].what,
				no.text)
		}
	}
	text := fmt.Sprintf("%d answers", len(c.answered))
	for i, w := range windows {
		text += fmt.Sprintf("; %s: issued again after %.1fs, to it after %.1fs, it waited %.1fs at most, %d refused",
			w.what, seconds(w.issued-w.begin), seconds(w.end-w.begin), c.slowest(w), inside[i])
	}
	return text, nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// when says how long after the end of a window a request began.
func (no refusal) when(windows []window) string {
	text := "before anything changed"
	for _, w := range windows {
		if no.begin > w.end {
			text = fmt.Sprintf("%.3fs after %s was over", seconds(no.begin-w.end), w.what)
		}
	}
	return text
}

// slowest returns how long the slowest request took that was answered and under way in a window, in seconds.
func (c *follower) slowest(w window) (longest float64) {
	for _, q := range c.answered {
		if q.End >= w.begin && q.Begin <= w.end {
			longest = max(longest, seconds(q.End-q.Begin))
		}
	}
	return longest
}

// monotonic returns CLOCK_MONOTONIC, which all processes share, in ns.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
