package leaserun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// cgroupFor makes a cgroup for a test's cgroups, and removes it in the end with all that is in it.
func cgroupFor(t *testing.T) (dir string) {
	t.Helper()
	own, err := ownCgroup()
	if err == nil {
		dir, err = os.MkdirTemp(own, "leaserun-test-")
	}
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		g, err := openCgroup(dir)
		if err != nil {
			t.Error(err)
			return
		}
		g.kill()
		g.end()
		g.remove()
	})
	if _, err := os.Stat(dir + "/cgroup.kill"); err != nil {
		t.Skipf("an old kernel: %v", err)
	}
	return dir
}

func cgroupsBelow(parent string) []string {
	dirs, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	return dirs
}

// daemonise is a program that starts an issuer as daemons are started: another session, another
// parent, no descriptor in common.
func (p *place) daemonise() *lessee {
	p.Helper()
	return p.lease("sh", "-c",
		`setsid sh -c '"$0" "$1" "$2" </dev/null >/dev/null 2>&1 &' "$0" "$1" "$2"; exec sleep 1000`,
		os.Args[0], p.dir, "{}")
}

// daemon is the number of the only process that issued.
func (p *place) daemon() (pid int) {
	p.Helper()
	p.issuers(1)
	files, _ := filepath.Glob(filepath.Join(p.dir, "*.ids"))
	fmt.Sscanf(filepath.Base(files[0]), "%d.ids", &pid)
	return pid
}

func leftBehindUnconfined(p *place) {
	p.cgroups = p.dir // no cgroup
	l := p.daemonise()
	pid := p.daemon()
	l.Process.Signal(syscall.SIGTERM)
	l.code(128 + int(syscall.SIGTERM))
	if alive(pid) {
		syscall.Kill(pid, syscall.SIGKILL)
		p.Error("the daemon lives on")
	}
	if !l.said(`cgroup="none: `) || len(cgroupsBelow(p.dir)) > 0 {
		p.Error("it does not say that there was no cgroup, or left something of it behind")
	}
}

// leftBehindConfined: nor what was moved in, whose parent is elsewhere, nor what is in a cgroup of
// the program's own.
func leftBehindConfined(p *place) {
	p.cgroups = cgroupFor(p.T)
	l := p.daemonise()
	pid := p.daemon()
	inner := filepath.Join(cgroupsBelow(p.cgroups)[0], "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		p.Fatal(err)
	}
	guest := guestIn(p.T, inner)
	l.Process.Signal(syscall.SIGTERM)
	l.code(128 + int(syscall.SIGTERM))
	if alive(pid) || alive(guest) {
		p.Error("somebody lives on")
	}
	if left := cgroupsBelow(p.cgroups); len(left) > 0 {
		p.Errorf("not removed: %q", left)
	}
}

// guestIn moves a process of the test's into a cgroup.
func guestIn(t *testing.T, cgroup string) (pid int) {
	t.Helper()
	guest := exec.Command("sleep", "1000")
	if err := guest.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		guest.Process.Kill()
		guest.Wait()
	})
	if err := os.WriteFile(cgroup+"/cgroup.procs", []byte(strconv.Itoa(guest.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	return guest.Process.Pid
}

func TestACgroupIsWaitedFor(t *testing.T) {
	t.Parallel()
	g, err := newCgroup(cgroupFor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	g.await(-1) // empty from the start
	var guests [20]int
	for i := range guests {
		guests[i] = guestIn(t, g.path)
	}
	g.await(0) // not yet, and back at once
	g.kill()
	g.await(-1)
	for _, pid := range guests {
		if alive(pid) {
			t.Errorf("%d lives", pid)
		}
	}
}

// TestACgroupIsFoundAgain: what the dead left behind, also below a name that means something else
// to shells. systemd writes a hyphen so. Not parallel: what another test forks holds the lock until
// it executes its program.
func TestACgroupIsFoundAgain(t *testing.T) {
	parent := cgroupFor(t)
	for _, name := range []string{`system-katsubushi\x2drun.slice`, "a*[b]?"} {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		g, err := newCgroup(dir)
		if err != nil {
			t.Fatal(err)
		}
		left := guestIn(t, g.path)
		g.close() // as the end of its process does
		next, err := newCgroup(dir)
		if err != nil {
			t.Fatal(err)
		}
		if alive(left) {
			t.Errorf("below %s somebody lives", name)
		}
		if next.remove(); !gone(g.path) {
			t.Errorf("below %s it is still there", name)
		}
	}
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// TestACgroupEnds: also if somebody is moved into it after everybody was killed.
func TestACgroupEnds(t *testing.T) {
	t.Parallel()
	g, err := newCgroup(cgroupFor(t))
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	g.kill()
	late := guestIn(t, g.path)
	if g.end(); alive(late) {
		t.Error("somebody lives on")
	}
}

func cgroupGone(p *place) {
	p.cgroups, p.fault = cgroupFor(p.T), "no cgroup"
	l := p.lease("sh", "-c", "exit 6")
	l.code(6)
	if !l.said(`cgroup="none: fork/exec`) {
		p.Error("it does not say why there was no cgroup")
	}
}

// leftByTheDead: nobody kills the daemon when the process that leases is killed; the next one must
// not issue beside it.
func leftByTheDead(p *place) {
	p.cgroups = cgroupFor(p.T)
	var first int
	fmt.Sscan(p.ids, &first)
	p.ids = fmt.Sprint(first, " ", first) // both get the same worker id
	l := p.daemonise()
	pid := p.daemon()
	p.Cleanup(func() {
		if alive(pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	l.Process.Kill()
	<-l.exited
	if !alive(pid) {
		p.Error("the daemon died by itself: this test shows nothing")
	}
	next := p.lease(os.Args[0], p.dir, "{}")
	p.issuers(2)
	next.Process.Signal(syscall.SIGTERM)
	<-next.exited
	p.verdict()
	if left := cgroupsBelow(p.cgroups); len(left) > 0 {
		p.Errorf("not removed: %q", left)
	}
}

// TestCgroupsAtTheSameTime: nobody takes another one's for left behind. Whoever is unlucky may get none.
func TestCgroupsAtTheSameTime(t *testing.T) {
	t.Parallel()
	parent := cgroupFor(t)
	const rounds, several = 10, 8
	got := 0
	for range rounds {
		made := make([]*cgroup, several)
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], _ = newCgroup(parent) })
		}
		all.Wait()
		for _, g := range made {
			if g == nil {
				continue
			}
			got++
			if _, err := os.Stat(g.path); err != nil {
				t.Error(err)
			}
			g.remove()
		}
	}
	t.Logf("%d of %d", got, rounds*several)
	if left := cgroupsBelow(parent); got == 0 || len(left) > 0 {
		t.Errorf("%d made, %q left", got, left)
	}
}

func TestWhereCgroupsAre(t *testing.T) {
	const host = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, c := range map[string]struct {
		self, mounts string
		want         []string
	}{
		"systemd": {"0::/system.slice/a.service\n", "1 2 8:1 / / rw - ext4 /dev/sda rw\n" + host,
			[]string{"/sys/fs/cgroup/system.slice/a.service"}},
		"namespace": {"0::/\n", host, []string{"/sys/fs/cgroup"}},
		"hybrid": {"4:memory:/x\n0::/z\n",
			"31 2 0:3 / /c/memory rw - cgroup cgroup rw\n41 31 0:8 / /c/unified rw - cgroup2 none rw\n",
			[]string{"/c/unified/z"}},
		"v1": {"4:memory:/x\n", "31 2 0:3 / /c/memory rw - cgroup cgroup rw,memory\n", nil},
		"a part": {"0::/docker/1/2\n", "9 8 0:3 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			[]string{"/sys/fs/cgroup/2"}},
		"another part":    {"0::/docker/11\n", "9 8 0:3 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", nil},
		"outside":         {"0::/../b\n", host, nil},
		"mounted above":   {"0::/\n", "9 8 0:3 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n", nil},
		"mounted outside": {"0::/\n", "9 8 0:3 /../b /sys/fs/cgroup ro - cgroup2 cgroup rw\n", nil},
		"a space":         {"0::/a b\n", `9 8 0:3 / /my\040groups\134 rw - cgroup2 cgroup rw`, []string{`/my groups\/a b`}},
		"nothing":         {"", "", nil},
	} {
		if got := cgroupDirs(c.self, c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
