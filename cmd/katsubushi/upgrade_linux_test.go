package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// An upgradable is a daemon whose program is a link, to be replaced.
type upgradable struct {
	*process
	program string
	now     int // the process that serves
}

// startUpgradable starts a daemon that can be asked for an upgrade. All its successors end with the test.
func startUpgradable(t *testing.T, args ...string) *upgradable {
	t.Helper()
	s := scene{t: t, daemons: map[string]*upgradable{}}
	s.launch("d", args...)
	u := s.daemons["d"]
	u.WaitListening(t)
	u.awaitControl(t)
	return u
}

// session returns the processes that the daemon, its successors, and what they have started are.
func (u *upgradable) session() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || gone(pid) {
			continue
		}
		if session, err := unix.Getsid(pid); err == nil && session == u.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitControl waits until the process that serves can be asked for an upgrade.
func (u *upgradable) awaitControl(t *testing.T) {
	t.Helper()
	await(t, "the daemon can be asked", func() bool {
		c, err := net.Dial("unix", fmt.Sprintf("@katsubushi/control/%d", u.now))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// install replaces the program by a link to a file.
func (u *upgradable) install(t *testing.T, file string) {
	t.Helper()
	if err := errors.Join(os.Symlink(file, u.program+".new"), os.Rename(u.program+".new", u.program)); err != nil {
		t.Fatal(err)
	}
}

// pretend replaces the program by this test program, which is to behave in some way; see actAsSuccessor.
func (u *upgradable) pretend(t *testing.T, mode string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tempfile.Write(t, u.program+".mode", mode)
	u.install(t, self)
}

// upgrade runs `katsubushi upgrade`, and returns its exit code and what it printed.
func (u *upgradable) upgrade(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	c := exec.Command(binary, append([]string{"upgrade", "-pid", strconv.Itoa(u.now)}, args...)...)
	out, _ := c.CombinedOutput()
	return c.ProcessState.ExitCode(), strings.TrimSpace(string(out))
}

// upgrading is upgrade beside what the test does. What was printed comes at the end.
func (u *upgradable) upgrading(t *testing.T, args ...string) <-chan string {
	answered := make(chan string, 1)
	go func() {
		_, said := u.upgrade(t, args...)
		answered <- said
	}()
	return answered
}

// succeed upgrades to the real program, at the second or third try if the machine is busy: the old process serves on
// when a step takes too long. Nothing else is a reason to try again.
func (u *upgradable) succeed(t *testing.T) (said string) {
	t.Helper()
	return u.succeedTo(t, binary)
}

// succeedTo is succeed with another version of the program.
func (u *upgradable) succeedTo(t *testing.T, program string) (said string) {
	t.Helper()
	u.install(t, program)
	code, said := u.upgrade(t)
	late := regexp.MustCompile("goes on: .*(in time|has not answered for|" + context.DeadlineExceeded.Error() + ")")
	for tries := 1; tries < 3 && late.MatchString(said); tries++ {
		t.Logf("try %d: %s", tries, said)
		code, said = u.upgrade(t)
	}
	var pid int
	if n, _ := fmt.Sscanf(said, "process %d of version", &pid); code != 0 || n != 1 {
		t.Fatalf("not upgraded: exit code %d, %s", code, said)
	}
	before := u.now
	u.now = pid
	await(t, "the old process ends", func() bool { return gone(before) })
	u.awaitControl(t)
	return said
}

// gone reports whether a process has ended.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return err != nil || bytes.HasPrefix(after, []byte("Z"))
}

// A stream is a client that pipelines, and measures how long it waits.
type stream struct {
	conn    net.Conn
	resp    bool
	pause   time.Duration // within a batch
	longest atomic.Int64  // ns, of the batches that ended since it was set to 0
}

const batch = 8 // requests that a stream sends at once

// run asks for ids until stop, and adds them to the census. Anything but an id, and an id below the one
// before, fails the test.
func (s *stream) run(t *testing.T, c *census, stop *atomic.Bool) {
	line := "get id\r\n"
	if s.resp {
		line = "*2\r\n$3\r\nGET\r\n$2\r\nid\r\n"
	}
	text := strings.Repeat(line, batch)
	r := bufio.NewReader(s.conn)
	ids, last := make([]uint64, 0, batch), uint64(0)
	for n := 0; !stop.Load(); n++ {
		begun := time.Now()
		cut := n * 7 % len(text) // sometimes a request comes in two parts
		_, err := io.WriteString(s.conn, text[:cut])
		if err == nil {
			time.Sleep(s.pause)
			_, err = io.WriteString(s.conn, text[cut:])
		}
		ids = ids[:0]
		for range batch {
			if err != nil {
				break
			}
			var id uint64
			if id, err = s.read(r); err == nil {
				if id <= last {
					t.Errorf("id %d after %d on one connection", id, last)
				}
				last = id
				ids = append(ids, id)
			}
		}
		c.add(ids)
		if err != nil {
			t.Errorf("a request failed after %d of %d answers: %v", len(ids), batch, err)
			return
		}
		if took := int64(time.Since(begun)); took > s.longest.Load() {
			s.longest.Store(took)
		}
	}
}

func (s *stream) read(r *bufio.Reader) (uint64, error) {
	if !s.resp {
		var a answer
		if err := a.read(r); err != nil {
			return 0, err
		}
		if len(a.ids) != 1 {
			return 0, fmt.Errorf("answered %+v", a)
		}
		return a.ids[0], nil
	}
	head, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(head, "$") {
		return 0, fmt.Errorf("answered %q", head)
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(line), 10, 64)
}

// TestProcessUpgradeUnderLoad: 64 connections that pipeline notice an upgrade by a short pause and by
// nothing else; also while new programs do not come up. KATSUBUSHI_SOAK=1 makes it 100 upgrades, without pauses between
// requests.
func TestProcessUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	upgrades, pause := 2, 20*time.Millisecond
	if os.Getenv("KATSUBUSHI_SOAK") != "" {
		upgrades, pause = 100, 0
	}
	for _, engine := range availableEngines(t) {
		t.Run(engine, func(t *testing.T) {
			u := startUpgradable(t, append(inMemory(t), "-worker-id", "32", "-engine", engine, "-http-port", freePort(t))...)
			c := census{lanes: 1}
			var stop atomic.Bool
			var clients sync.WaitGroup
			streams := make([]*stream, 64)
			for i := range streams {
				s := &stream{conn: dial(t, "tcp", u.Addr()), resp: i%2 == 1, pause: pause}
				streams[i] = s
				clients.Go(func() { s.run(t, &c, &stop) })
			}
			t.Cleanup(clients.Wait)
			t.Cleanup(func() { stop.Store(true) })
			// A connection that the daemon has not accepted yet moves with its listener, and is not counted.
			for _, s := range streams {
				await(t, "a client has answers", func() bool { return s.longest.Load() > 0 || t.Failed() })
			}
			var pauses []time.Duration
			for i := range upgrades {
				if i%2 == 1 {
					u.pretend(t, "version")
					if code, said := u.upgrade(t); code != exitFailure {
						t.Errorf("an upgrade to nothing: %s", said)
					}
				}
				for _, s := range streams {
					s.longest.Store(0)
				}
				said := u.succeed(t)
				if !strings.Contains(said, "with 64 connections") {
					t.Errorf("not all connections moved: %s", said)
				}
				for _, s := range streams {
					await(t, "a client goes on", func() bool { return s.longest.Load() > 0 || t.Failed() })
					pauses = append(pauses, time.Duration(s.longest.Load()))
				}
				if t.Failed() {
					return
				}
			}
			stop.Store(true)
			clients.Wait()
			c.verdict(t)
			slices.Sort(pauses)
			t.Logf("%d upgrades, %d connections: longest wait of a client for %d answers in each: p50 %v, p99 %v, longest %v",
				upgrades, len(streams), batch,
				pauses[len(pauses)/2], pauses[len(pauses)*99/100], pauses[len(pauses)-1])
		})
	}
}
