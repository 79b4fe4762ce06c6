package leaserun

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/unique"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// TestMain makes this binary play three parts: the tests; the process that leases, since that takes
// all its children for the program's and is killed now and then; and a program that issues ids.
func TestMain(m *testing.M) {
	switch os.Getenv("LEASERUN_TEST") {
	case "lease":
		os.Setenv("LEASERUN_TEST", "issue") // for the program, if that is this binary
		os.Exit(leaseAndRun(os.Args[1:]))
	case "issue":
		if len(os.Args) == 1 {
			os.Exit(parrot())
		}
		issue(os.Args[1], os.Args[2])
	}
	flag.Parse()
	flag.Set("test.parallel", "12") // they wait most of the time
	os.Exit(m.Run())
}

// settings are the shortest that a skew of 200 ms allows.
func settings(url string) redis.Config {
	return redis.Config{URL: url,
		Terms: workerid.Terms{Layout: "test", Min: 1, Max: 60, Lease: 6 * time.Second, MaxSkew: 200 * time.Millisecond}}
}

func leaseAndRun(command []string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c := settings(os.Getenv("LEASERUN_URL"))
	var want workerid.Request
	fmt.Sscan(os.Getenv("LEASERUN_IDS"), &want.Min, &want.Max)
	checked := clock.New()
	c.Log, c.Now = log, checked.Now
	s, err := redis.Open(c)
	if err != nil {
		log.Error(err.Error())
		return 2
	}
	defer s.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, Signals()...)
	code, err := Run(Config{
		Store: faulty{s, os.Getenv("LEASERUN_FAULT")}, Request: want, Lease: c.Lease,
		Heartbeat: workerid.HeartbeatOf(c.Lease),
		Margin:    300 * time.Millisecond, StopTimeout: time.Second, Command: command, Replacement: "{}", Signals: signals,
		Now: func() int64 { return time.Now().UnixMilli() }, Clock: checked, Log: log, cgroups: os.Getenv("LEASERUN_CGROUPS"),
	})
	if err != nil {
		log.Error(err.Error())
	}
	return code
}

// A faulty store finds a copy of this process at the second extension, or somebody removes the
// cgroup before the program's start, if it is told so.
type faulty struct {
	workerid.Store
	fault string
}

func (s faulty) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if s.fault == "no cgroup" {
		for _, dir := range cgroupsBelow(os.Getenv("LEASERUN_CGROUPS")) {
			os.Remove(dir)
		}
	}
	return s.Store.Acquire(ctx, want)
}

func (s faulty) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if s.fault == "cloned" {
		return []workerid.Result{{Err: workerid.ErrCloned}}, nil
	}
	return s.Store.Extend(ctx, held)
}

// issue is as simple a generator as there is: the clock, the worker id, a sequence that begins anew
// each ms. It appends its ids to a file, those of some ms at a time: a dozen of these programs run beside each other.
func issue(dir, worker string) {
	id, err := strconv.ParseUint(worker, 10, 10)
	if err != nil {
		panic(err)
	}
	f, err := os.Create(filepath.Join(dir, strconv.Itoa(os.Getpid())+".ids"))
	if err != nil {
		panic(err)
	}
	for next := time.Now().UnixMilli(); ; time.Sleep(5 * time.Millisecond) {
		var ids []byte
		for now := time.Now().UnixMilli(); next <= now; next++ {
			for seq := range uint64(4) {
				ids = binary.LittleEndian.AppendUint64(ids, uint64(next)<<22|id<<12|seq)
			}
		}
		if _, err := f.Write(ids); err != nil {
			panic(err)
		}
	}
}

// A lessee is a process that leases a worker id and runs a program.
type lessee struct {
	*exec.Cmd
	mu     sync.Mutex
	out    bytes.Buffer // the program's, and the log
	exited chan struct{}
	t      *testing.T
}

func (l *lessee) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *lessee) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lessee) said(text string) bool { return strings.Contains(l.text(), text) }

func (p *place) lease(command ...string) *lessee {
	p.Helper()
	return p.leaseBy(append([]string{os.Args[0]}, command...)...)
}

// leaseBy runs a command line that comes to this binary.
func (p *place) leaseBy(command ...string) *lessee {
	t := p.T
	t.Helper()
	l := &lessee{Cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{}), t: t}
	l.Env = append(os.Environ(), "LEASERUN_TEST=lease", "LEASERUN_URL="+p.url, "LEASERUN_IDS="+p.ids,
		"LEASERUN_FAULT="+p.fault,
		"LEASERUN_CGROUPS="+p.cgroups)
	l.Stdout, l.Stderr = l, l
	if p.terminal != nil { // a session of its own, and the terminal is that one's
		l.Stdin, l.Stdout, l.Stderr = p.terminal, p.terminal, p.terminal
		l.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	l.WaitDelay = time.Second // a program that outlives it keeps the pipe open
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		l.Wait()
		close(l.exited)
	}()
	t.Cleanup(func() {
		l.Process.Kill()
		<-l.exited
		if t.Failed() {
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Logf("%q:\n%s", command, l.out.String())
		}
	})
	return l
}

// holds says whether it has, or had last, the worker id of a lease and did not give it back.
func (l *lessee) holds(held workerid.Lease) bool {
	return strings.Contains(held.Owner, fmt.Sprintf("/%d/", l.Process.Pid))
}

// issued says whether the lessee's program has issued some ids.
func (l *lessee) issued(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, pid, _ := strings.Cut(l.out.String(), " pid=")
	pid, _, _ = strings.Cut(pid, "\n")
	info, err := os.Stat(filepath.Join(p.dir, pid+".ids"))
	return err == nil && info.Size() > 1000
}

// code waits for the end.
func (l *lessee) code(want int) {
	l.t.Helper()
	redistest.Until(l.t, "it ends", func() bool {
		select {
		case <-l.exited:
			return true
		default:
			return false
		}
	})
	if got := l.ProcessState.ExitCode(); got != want {
		l.t.Errorf("exit code %d, want %d", got, want)
	}
}

func (l *lessee) await(text string) {
	l.t.Helper()
	redistest.Until(l.t, "it says "+text, func() bool { return l.said(text) })
}

// A place is where a test's programs run: a pool that all tests share, since a new one takes three
// seconds, and a range of it that is the test's own.
type place struct {
	*testing.T
	server *redistest.Server
	pool   *redis.Pool
	url    string
	ids    string // a range
	dir    string // for what programs write
	fault  string

	cgroups  string   // where cgroups are made; empty: where they are without a test
	terminal *os.File // nil: none
}

func newPool(t *testing.T) *place {
	t.Helper()
	server := redistest.Start(t)
	pool, err := redis.OpenPool(settings(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	insist(t, "the pool is made", func() error {
		_, err := pool.Init(context.Background(), redis.New)
		return err
	})
	return &place{T: t, server: server, pool: pool, url: server.URL()}
}

// insist does what an operator does, again while Redis answers too late on a busy machine.
func insist(t *testing.T, what string, f func() error) {
	t.Helper()
	redistest.Until(t, what, func() bool {
		err := f()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, workerid.ErrSkew) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func (p *place) leases() (all []workerid.Lease) {
	p.Helper()
	insist(p.T, "the leases are listed", func() (err error) {
		all, err = p.pool.List(context.Background())
		return err
	})
	return all
}

// tooLate is what a lessee says that Redis has not answered in time.
var tooLate = regexp.MustCompile(
	`msg="the worker id is not given back.*(deadline exceeded|did not answer|differ too much)`)

// givenBack checks that a process that ended has no lease, unless Redis answered too late on a busy machine.
func (p *place) givenBack(all ...*lessee) {
	p.Helper()
	leases := p.leases()
	for _, l := range all {
		for _, held := range leases {
			if l.holds(held) && !tooLate.MatchString(l.text()) {
				p.Errorf("worker id %d is not given back", held.Worker)
			}
		}
	}
}

// alive says whether there is such a process, a zombie aside.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// readPid waits for a number in a file.
func readPid(t *testing.T, file string) (pid int) {
	t.Helper()
	redistest.Until(t, file+" is written", func() bool {
		text, _ := os.ReadFile(file)
		n, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n"))
		pid = n
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

// verdict reads what programs issued, and finds ids that came twice.
func (p *place) verdict() {
	p.Helper()
	files, _ := filepath.Glob(filepath.Join(p.dir, "*.ids"))
	set := &unique.Set{}
	for _, f := range files {
		ids, err := os.ReadFile(f)
		if err != nil {
			p.Fatal(err)
		}
		for ; len(ids) >= 8; ids = ids[8:] {
			set.Add(binary.LittleEndian.Uint64(ids))
		}
	}
	if err := set.Plant(); err != nil || set.Duplicates() > 0 {
		p.Errorf("%v, %v", set, err)
	}
	p.Log(set)
}

// issuers waits until n programs issue, and until there are 1,000 more ids then.
func (p *place) issuers(n int) {
	p.Helper()
	issued := func() (programs, bytes int) {
		files, _ := filepath.Glob(filepath.Join(p.dir, "*.ids"))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				bytes += int(info.Size())
			}
		}
		return len(files), bytes
	}
	enough := 0
	redistest.Until(p, fmt.Sprintf("%d programs issue", n), func() bool {
		programs, bytes := issued()
		if enough == 0 && programs >= n {
			enough = bytes + 8*1000
		}
		return enough > 0 && bytes >= enough
	})
}
