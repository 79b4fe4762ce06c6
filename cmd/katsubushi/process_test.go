package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// TestMain builds the program; the tests in this package that begin with TestProcess talk to it from
// outside. More of them run beside each other than there are processors: most of the time they wait
// for a lease or a clock.
func TestMain(m *testing.M) {
	if actAsSuccessor() {
		return
	}
	flag.Parse()
	daemonsHere = ownDaemons
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, "8")
	}
	dir, err := os.MkdirTemp("", "katsubushi-test")
	if err == nil {
		binary, err = daemonrun.Build()
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", dir) // nothing in here writes into the home of whoever runs it
	// The daemons' memory pages outlive them; remove them with the tests.
	pages, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err == nil {
		os.Setenv("RUNTIME_DIRECTORY", pages)
	}
	stoodStill.late = map[time.Time]time.Duration{}
	go stoodStill.run()
	code := m.Run()
	zktest.End()
	os.RemoveAll(pages)
	os.RemoveAll(dir)
	os.Exit(code)
}

// ownDaemons leaves out the daemons of other packages' tests: a command that runs in this process is not to ask them.
func ownDaemons() ([]control.Daemon, error) {
	found, err := control.Find()
	return slices.DeleteFunc(found, func(d control.Daemon) bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID))
		return d.PID != os.Getpid() && !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	}), err
}

var binary string

// A process is a running daemon and what it logged.
type process struct{ *daemonrun.Daemon }

// start runs the daemon with more arguments, on loopback and a free port, and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{daemonrun.Start(t, args...)}
}

// launch starts the daemon and does not wait. The daemon makes no claim and records nothing, because
// other tests use worker id 1 too.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{daemonrun.Launch(t, args...)}
}

// runs starts any command, with more arguments.
func runs(t *testing.T, cmd *exec.Cmd, args ...string) *process {
	t.Helper()
	cmd.Args = append(cmd.Args, args...)
	return &process{daemonrun.Run(t, cmd)}
}

// end ends the process by a signal, and returns the exit code.
func (p *process) end(t *testing.T, s os.Signal) int {
	t.Helper()
	p.Signal(t, s)
	<-p.Ended()
	return p.ProcessState.ExitCode()
}

// patiently runs a command in this process, and again while its store is too slow for it. again means that this was the
// answer of a later try, and that an earlier one may have done it.
func patiently(env variables, args ...string) (code int, stdout, stderr string, again bool) {
	for tries := 0; ; tries++ {
		var o, e bytes.Buffer
		code = run(args, env, &o, &e)
		stdout, stderr = o.String(), e.String()
		if slow := tooSlow(stderr); !slow || tries == 50 {
			return code, stdout, stderr, tries > 0 && !slow
		}
	}
}

// printed runs a program, which must succeed, and returns what it prints; again while its store is too slow for it.
func printed(t *testing.T, program string, args ...string) string {
	t.Helper()
	for tries := 0; ; tries++ {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err == nil {
			return string(out)
		}
		if !tooSlow(string(out)) || tries == 50 {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
}

// tooSlow tells from an error that a store gave no answer in time, or so late that its client ended the connection, or
// that it does not tell its time well enough: on a busy machine.
func tooSlow(said string) bool {
	return slices.ContainsFunc([]string{
		context.DeadlineExceeded.Error(), os.ErrDeadlineExceeded.Error(), "no answer within ", workerid.ErrSkew.Error(),
		cas.ErrConnection.Error(), " broke, and the call may have been carried out",
	}, func(late string) bool { return strings.Contains(said, late) })
}

// await waits for a condition; the deadline is only for a test that fails.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	childprocess.Until(t, what, condition)
}

func dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(network, addr, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	t.Cleanup(func() { c.Close() })
	return c
}

// need is childprocess.Need.
func need(t *testing.T, program string) string {
	t.Helper()
	return childprocess.Need(t, program)
}
