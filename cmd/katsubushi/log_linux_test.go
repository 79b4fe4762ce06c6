package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A deaf is a daemon whose stderr is a full pipe, which nobody reads.
type deaf struct {
	*process
	sock string
	log  *os.File // the end for reading
}

// fullPipe makes a pipe that takes not one byte more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	full := []byte(strings.Repeat("x", 4095) + "\n")
	err = raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = unix.Write(int(fd), full) // the pipe does not block yet
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Fd() // now it does
	return r, w
}

// startDeaf starts a daemon that listens on a unix socket, since its log does not say which port it
// has.
func startDeaf(t *testing.T, args ...string) *deaf {
	t.Helper()
	r, w := fullPipe(t)
	d := &deaf{log: r, sock: filepath.Join(t.TempDir(), "k.sock")}
	d.process = launchInto(t, w,
		append([]string{"-worker-id", "1", "-claim", "off", "-state-dir", "none", "-log-format", "json", "-sock", d.sock},
			args...)...)
	// An answer, not a connection: at its start a daemon tries for a moment whether the address is free.
	await(t, "it serves", func() bool {
		if d.HasEnded() {
			t.Fatalf("it ended: %v", d.ProcessState)
		}
		c, err := net.Dial("unix", d.sock)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprint(c, "version\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		return strings.HasPrefix(line, "VERSION ")
	})
	return d
}

// launchInto launches the program with a stderr of the test's, which is closed here.
func launchInto(t *testing.T, stderr *os.File, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Stderr = stderr
	defer stderr.Close()
	return runs(t, cmd)
}

// serves asks for an id on many connections, so that every loop has to answer some.
func (d *deaf) serves(t *testing.T) {
	t.Helper()
	for range 16 {
		c := newAsker(t, "unix", d.sock)
		c.id(t)
		c.Close()
	}
}

// chatter makes the daemon log until it has lost some lines.
func (d *deaf) chatter(t *testing.T) {
	t.Helper()
	await(t, "lines are lost", func() bool {
		for range 100 {
			d.Process.Signal(syscall.SIGHUP)
		}
		return statisticOf(t, "unix", d.sock, "log_lines_dropped") > 0
	})
}

func (d *deaf) ends(t *testing.T, code int) {
	t.Helper()
	await(t, "it ends", d.HasEnded)
	if got := d.ProcessState; got.ExitCode() != code {
		t.Errorf("%v, want exit code %d", got, code)
	}
}

func TestProcessNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	httpPort := freePort(t)
	d := startDeaf(t, "-http-port", httpPort, "-bind", "127.0.0.1", "-loops", "2", "-max-connections", "100")
	d.chatter(t)
	d.serves(t)

	// It is read again: the log goes on, and says what is missing.
	go io.Copy(d.Log, d.log)
	await(t, "the log says how many lines are lost", func() bool {
		return d.Entry("log lines were lost: the log could not be written") != nil
	})
	lost := d.Entry("log lines were lost: the log could not be written")
	_, _, page := httpGet(httpPort, "/metrics")
	if n := statisticOf(t, "unix", d.sock, "log_lines_dropped"); lost["lines"] != float64(n) ||
		!strings.Contains(page, fmt.Sprintf("\nkatsubushi_log_lines_dropped_total %d\n", n)) {
		t.Errorf("lost: %v in the log, %d in the statistics; metrics:\n%s", lost["lines"], n, page)
	}
	if d.Entry("listening") == nil ||
		d.Entry("nothing to reload: no certificate, no users and no file of names configured") == nil {
		t.Error("what was queued is not in the log")
	}
	d.Process.Signal(syscall.SIGTERM)
	d.ends(t, exitOK)
	await(t, "the log has its end", func() bool { return d.Entry("stopped") != nil })
}

func TestProcessStopsThoughNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	d := startDeaf(t)
	d.Process.Signal(syscall.SIGTERM)
	d.ends(t, exitOK)
}

func TestProcessTheReaderOfTheLogGoesAway(t *testing.T) {
	t.Parallel()
	d := startDeaf(t)
	d.log.Close() // the write that waits fails, and all that follow
	d.chatter(t)
	d.serves(t)
	d.Process.Signal(syscall.SIGTERM)
	d.ends(t, exitOK)
}

// TestProcessTheLastLinesAreWritten: whoever exits waits for them.
func TestProcessTheLastLinesAreWritten(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker-id", "1", "-shutdown-delay", "1h")
	p.Process.Signal(syscall.SIGTERM)
	await(t, "the first signal is logged", func() bool { return p.Entry("stopping") != nil })
	if code := p.end(t, syscall.SIGTERM); code != exitFailure ||
		!strings.HasSuffix(p.Logged(), `"second signal: exiting at once","signal":"terminated"}`+"\n") {
		t.Errorf("exit code %d:\n%s", code, p.Logged())
	}
}

// TestProcessRunsAnotherProgramThoughNobodyReadsTheLog: and the program dies of SIGPIPE as ever.
func TestProcessRunsAnotherProgramThoughNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	redisPool(t, url)
	running := map[string]*process{}
	for name, readerIsGone := range map[string]bool{"a full pipe": false, "a broken pipe": true} {
		r, w := fullPipe(t)
		if readerIsGone {
			r.Close()
		}
		args := []string{"run", "-redis", url, "-min-worker-id", "1", "-max-worker-id", "5", "-lease", "6s", "-max-skew",
			"200ms"}
		running[name] = launchInto(t, w, append(args, "--", "sh", "-c", "kill -PIPE $$; exit 9")...)
	}
	for name, p := range running {
		await(t, name+": it ends", p.HasEnded)
		if code := p.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) {
			t.Errorf("%s: %v", name, p.ProcessState)
		}
	}
}

// TestProcessJournal: the daemon finds out by $JOURNAL_STREAM whether its stderr is the journal, and says
// there with a priority what keeps it from starting, too.
func TestProcessJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string // beginnings of lines
	}{
		{[]string{"-worker-id", "x"}, []string{"<3>katsubushi cannot start", "<3>-worker-id", "<3>katsubushi -h all"}},
		{
			[]string{"-worker-id", "1", "-state-dir", "/proc/none", "-log-format", "json", "-port", "0", "-http-port", "0"},
			[]string{`<6>{"time"`, `<6>{"time"`, `<2>{"time"`},
		},
		{[]string{"run", "-store", "x", "true"}, []string{"<3>-store", "<3>See katsubushi run -help"}},
	} {
		for other := range uint64(2) { // 1: stderr is another file, as a program that the daemon starts may have
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var s syscall.Stat_t
			if err := syscall.Fstat(int(w.Fd()), &s); err != nil {
				t.Fatal(err)
			}
			p := exec.Command(binary, c.args...)
			p.Env = append(os.Environ(), "JOURNAL_STREAM="+fmt.Sprintf("%d:%d", s.Dev, s.Ino+other))
			p.Stderr = w
			p.Run() // what it says is little enough for the pipe
			w.Close()
			var text bytes.Buffer
			text.ReadFrom(r)
			lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
			if len(lines) != len(c.want) {
				t.Errorf("%v: %q", c.args, lines)
				continue
			}
			for i, want := range c.want {
				if other != 0 {
					want = want[len("<3>"):]
				}
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("%v: %q does not begin with %s", c.args, lines[i], want)
				}
			}
		}
	}
}
