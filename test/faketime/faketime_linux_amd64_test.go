package faketime

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain makes this program its own child: with the variable set it tells its clocks, a line for
// each line that it is sent.
func TestMain(m *testing.M) {
	if os.Getenv("FAKETIME_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	born := time.Now()
	for range 3 {
		go func() {
			for !time.Now().Before(born) { // so that steps meet threads that are reading the clocks
			}
			panic("the monotonic clock went back")
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(born)))
	}
}

// A child is a Go program whose clocks can be read.
type child struct {
	*Process
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startChild(t *testing.T, offset time.Duration) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAKETIME_TEST_CHILD=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, cmd, offset)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{p, t, in, bufio.NewReader(out)}
}

// begin starts a command or skips the test.
func begin(t *testing.T, cmd *exec.Cmd, offset time.Duration) *Process {
	t.Helper()
	p, err := Start(cmd, offset)
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("KATSUBUSHI_REQUIRE") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A reading is what a child answered, and this process's time before it was asked and after it had
// answered.
type reading struct {
	wall          int64
	sinceBorn     time.Duration
	before, after time.Time
}

func (c *child) read() (r reading) {
	c.t.Helper()
	r.before = time.Now()
	fmt.Fprintln(c.in)
	line, err := c.out.ReadString('\n')
	r.after = time.Now()
	if _, e := fmt.Sscan(line, &r.wall, &r.sinceBorn); err != nil || e != nil {
		c.t.Fatalf("%q: %v, %v", line, err, e)
	}
	return r
}

// shiftedBy checks a wall clock: it must lie between the machine's before and after, moved by the
// offset.
func (r reading) shiftedBy(t *testing.T, offset time.Duration) {
	t.Helper()
	if r.wall < r.before.UnixNano()+int64(offset) || r.wall > r.after.UnixNano()+int64(offset) {
		t.Errorf("wall clock %v off the machine's; want %v", time.Duration(r.wall-r.before.UnixNano()), offset)
	}
}

const year = 365 * 24 * time.Hour

func TestTheWallClockMovesAndTheMonotonicDoesNot(t *testing.T) {
	offset := time.Hour
	c := startChild(t, offset)
	last := c.read()
	last.shiftedBy(t, offset)
	for _, step := range []time.Duration{
		-2 * time.Hour, year, -year, 500 * time.Millisecond, -500 * time.Millisecond, -500 * time.Millisecond, 999_999_999, 1,
		-3 * time.Second, -10 * year, 50 * year,
	} {
		if err := c.Step(step); err != nil {
			t.Fatal(err)
		}
		offset += step
		r := c.read()
		r.shiftedBy(t, offset)
		passed := r.sinceBorn - last.sinceBorn
		if passed < r.before.Sub(last.after) || passed > r.after.Sub(last.before) {
			t.Errorf("after a step of %v, %v passed on the monotonic clock; here between %v and %v", step, passed,
				r.before.Sub(last.after), r.after.Sub(last.before))
		}
		last = r
	}
}

func TestEveryProcessHasItsOwnClock(t *testing.T) {
	a, b := startChild(t, time.Minute), startChild(t, 0)
	if err := a.Step(time.Minute); err != nil {
		t.Fatal(err)
	}
	a.read().shiftedBy(t, 2*time.Minute)
	b.read().shiftedBy(t, 0)
}

// TestProgramsThatUseLibc: date calls clock_gettime, bash gettimeofday, perl time.
func TestProgramsThatUseLibc(t *testing.T) {
	for _, c := range []struct {
		name    string
		arg     []string
		answers time.Duration // the unit of the number printed
	}{
		{"date", []string{"+%s%N"}, time.Nanosecond},
		{"bash", []string{"-c", "echo ${EPOCHREALTIME/[.,]}"}, time.Microsecond},
		{"perl", []string{"-e", "print time"}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.name); err != nil {
				t.Skip(err)
			}
			const offset = -10*year - 500*time.Millisecond
			cmd := exec.Command(c.name, c.arg...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			before := time.Now().Add(offset).Truncate(c.answers)
			begin(t, cmd, offset)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			after := time.Now().Add(offset)
			n, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
			if got := time.Unix(0, n*int64(c.answers)); err != nil || got.Before(before) || got.After(after) {
				t.Fatalf("%v, %v; want %v to %v", got, err, before, after)
			}
		})
	}
}

func TestPauseStopsAllThreads(t *testing.T) {
	c := startChild(t, 0)
	c.read()
	for range 20 {
		if err := c.Pause(); err != nil {
			t.Fatal(err)
		}
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
		if len(stats) < 3 {
			t.Fatalf("%d threads", len(stats))
		}
		for _, name := range stats {
			stat, err := os.ReadFile(name)
			if _, after, _ := bytes.Cut(stat, []byte(") ")); err != nil || after[0] != 'T' {
				t.Fatalf("%v: %s", err, stat)
			}
		}
		if err := c.Step(time.Second); err != nil {
			t.Fatal(err)
		}
		if stat, err := os.ReadFile(stats[0]); err != nil || !bytes.Contains(stat, []byte(") T")) {
			t.Fatalf("Step let a paused process go on: %s, %v", stat, err)
		}
		if err := c.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	c.read().shiftedBy(t, 20*time.Second)
}

func TestAProcessThatEnded(t *testing.T) {
	c := startChild(t, 0)
	c.cmd.Process.Kill()
	if err := c.Step(time.Second); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err) // not waited for yet: either is right
	}
	c.cmd.Wait()
	if err := c.Step(time.Second); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if _, err := Start(exec.Command("/nonexistent"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestAFunctionThatIsTooShortIsNotWrittenOver(t *testing.T) {
	base, image, err := readVDSO(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	v, err := parseVDSO(base, image)
	if err != nil {
		t.Skip(err)
	}
	for name, at := range map[string]int64{"clock_gettime": v.clockGettime, "gettimeofday": v.gettimeofday,
		"time": v.time} {
		changed := bytes.Clone(image)
		// A symbol's value is followed by its size.
		value := binary.LittleEndian.AppendUint64(nil, uint64(at-base))
		for i := 0; ; {
			n := bytes.Index(changed[i:], value)
			if n < 0 {
				break
			}
			i += n + 8
			binary.LittleEndian.PutUint64(changed[i:], 10)
		}
		if _, err := parseVDSO(base, changed); !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), "__vdso_"+name) {
			t.Errorf("%s of 10 bytes: %v", name, err)
		}
	}
	if _, err := parseVDSO(base, image[:100]); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a torn image: %v", err)
	}
}
