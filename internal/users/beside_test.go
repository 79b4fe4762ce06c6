package users

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// compareVar makes this program one that compares.
const compareVar = "COMPARE_PASSWORDS_BESIDE"

func init() {
	if os.Getenv(compareVar) != "" {
		if CompareBeside(os.Stdin, os.Stdout) != nil || runtime.GOMAXPROCS(0) != 1 {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// verifyBeside makes a Verifier of one user, ann, that compares in processes, and notes those that
// were started.
func verifyBeside(t *testing.T, command func() *exec.Cmd) (v verifying, started *[]*exec.Cmd) {
	v, started = verify(t, User{Name: "ann", Rights: everything(Get), secret: newHash([]byte("secret"))}), new([]*exec.Cmd)
	v.Beside = func() *exec.Cmd {
		c := command()
		*started = append(*started, c)
		return c
	}
	v.wait, v.keep = time.Hour, time.Hour
	t.Cleanup(v.Close)
	return v, started
}

func comparer() *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), compareVar+"=1")
	return c
}

// Comparisons run in one process of low priority, on one processor, which ends when it is not needed any more.
func TestComparisonsRunBeside(t *testing.T) {
	t.Parallel()
	v, started := verifyBeside(t, comparer)
	v.wants("ann", "wrong", "wrong", 1)
	v.wants("ann", "secret", "ann *=get", 1)
	v.wants("bob", strings.Repeat("x", 1000), "wrong", 1)
	v.wants("ann", "", "wrong", 1)
	if len(*started) != 1 {
		t.Fatalf("%d processes for 4 comparisons", len(*started))
	}
	c := (*started)[0]
	if runtime.GOOS == "linux" {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.Process.Pid))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if len(f) < 17 { // it has ended
				continue
			}
			if nice, err := strconv.Atoi(f[16]); nice < niceness || err != nil {
				t.Errorf("%s: niceness %s", task, f[16])
			}
		}
		if len(tasks) == 0 {
			t.Error("the process has no threads")
		}
	}
	v.takeBeside().in.Close() // as if the daemon had been killed
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	v.wants("ann", "other", "wrong", 1)
	if len(*started) != 2 {
		t.Errorf("%d processes", len(*started))
	}
}

// A process that cannot be started, ends, is killed or hangs costs time, and never decides a login.
func TestNoProcessBeside(t *testing.T) {
	t.Parallel()
	for what, command := range map[string]func() *exec.Cmd{
		"it is not there": func() *exec.Cmd { return exec.Command("/nonexistent") },
		"it ends":         func() *exec.Cmd { return exec.Command("true") },
		"it hangs":        func() *exec.Cmd { return exec.Command("sleep", "1000") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v, _ := verifyBeside(t, command)
			v.wait = 100 * time.Millisecond
			v.wants("ann", "wrong", "wrong", 1)
			v.wants("ann", "secret", "ann *=get", 1)
		})
	}
	v, started := verifyBeside(t, comparer)
	v.wants("ann", "wrong", "wrong", 1)
	(*started)[0].Process.Kill()
	v.wants("ann", "secret", "ann *=get", 1)
	v.wants("ann", "worse", "wrong", 1)
	if len(*started) != 2 {
		t.Errorf("%d processes after one was killed", len(*started))
	}
}

// A process that nobody has used for a while is ended, and one that was used meanwhile is not.
func TestIdleProcessesEnd(t *testing.T) {
	t.Parallel()
	v, started := verifyBeside(t, comparer)
	v.wants("ann", "wrong", "wrong", 1)
	v.closeIdle()
	v.mu.Lock()
	b := v.idle[0]
	b.used = b.used.Add(-v.keep)
	v.mu.Unlock()
	v.closeIdle()
	v.mu.Lock()
	if len(v.idle) != 0 {
		t.Error("it is kept")
	}
	v.mu.Unlock()
	v.wants("ann", "worse", "wrong", 1)
	if len(*started) != 2 {
		t.Errorf("%d processes", len(*started))
	}
}
