package leaserun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// TestPrograms shares one pool among its parts; each has worker ids of its own.
func TestPrograms(t *testing.T) {
	all := newPool(t)
	for i, test := range []struct {
		name string
		run  func(*place)
	}{
		{"it gets its worker id, and its exit code is forwarded", exitCodes},
		{"signals are forwarded", signals},
		{"nothing outlives the program", leftBehind},
		{"killing the lessee kills the program", parentDeath},
		{"without Redis it is dead before its window ends", outage},
		{"an operator ends its lease", operator},
		{"a copy of the process means the end at once", copied},
		{"whoever holds the lease is killed and another starts", successors},
		{"one after another", takingTurns},
		{"children from before are left alone", elders},
		{"without a cgroup nothing outlives the program", leftBehindUnconfined},
		{"in a cgroup nothing outlives the program", leftBehindConfined},
		{"a cgroup that is gone is done without", cgroupGone},
		{"what was left by one that was killed ends with the next", leftByTheDead},
		{"a stopped program is killed", stopped},
		{"a program that reads the terminal gets it", reader},
		{"what is typed reaches a program that does not read", typed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			own := *all
			own.T, own.ids, own.dir = t, fmt.Sprint(3*i+1, " ", 3*i+3), t.TempDir()
			test.run(&own)
		})
	}
}

func exitCodes(p *place) {
	l := p.lease("sh", "-c", "echo args {}x{} env $KATSUBUSHI_WORKER_ID; exit 7")
	l.code(7)
	if !l.said("args 1x1 env 1\n") { // the test's first one
		p.Error("the worker id is not in its place")
	}
	if g, err := newCgroup(""); err == nil {
		g.remove()
		if !l.said("cgroup=" + filepath.Dir(g.path) + "/" + cgroupPrefix + strconv.Itoa(l.Process.Pid)) {
			p.Error("the program was in no cgroup")
		}
	}
	p.lease("sh", "-c", "kill -9 $$").code(128 + 9)
	p.lease("no-such-program", "{}").code(ExitNotFound)
	p.lease("/", "{}").code(ExitCannotStart)
	p.givenBack(l)
}

func signals(p *place) {
	l := p.lease("sh", "-c", `for s in HUP INT QUIT USR1 USR2 ALRM WINCH; do trap "echo got $s." $s; done
		trap 'exit 5' TERM; echo "ready"; while :; do sleep 1 & wait; done`)
	l.await("ready\n")
	for name, s := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2,
		"ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH,
	} {
		l.Process.Signal(s)
		l.await("got " + name + ".")
	}
	l.Process.Signal(syscall.SIGTERM)
	l.code(5)
	p.givenBack(l)
}

// leftBehind: neither a program that ignores TERM, nor what it left in another session.
func leftBehind(p *place) {
	file := filepath.Join(p.dir, "pid")
	l := p.lease("sh", "-c",
		`trap "" TERM; setsid sh -c 'echo $$ > `+file+`; while :; do sleep 1; done' & while :; do sleep 1; done`)
	pid := readPid(p.T, file)
	l.Process.Signal(syscall.SIGTERM)
	l.code(128 + 9)
	if alive(pid) {
		p.Error("a process that the program started lives on")
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// stopped: TERM waits for the program to go on, SIGKILL does not.
func stopped(p *place) {
	file := filepath.Join(p.dir, "pid")
	l := p.lease("sh", "-c", "echo $$ > "+file+"; kill -STOP $$")
	pid := readPid(p.T, file)
	redistest.Until(p, "it has stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") T ")
	})
	l.Process.Signal(syscall.SIGTERM)
	l.code(128 + 9)
}

func parentDeath(p *place) {
	file := filepath.Join(p.dir, "pid")
	l := p.lease("sh", "-c", `trap "" TERM; echo $$ > `+file+`; exec sleep 1000`)
	pid := readPid(p.T, file)
	p.Cleanup(func() {
		if alive(pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	killed := time.Now()
	l.Process.Kill()
	redistest.Until(p, "the program is dead", func() bool { return !alive(pid) })
	p.Logf("dead after %v", time.Since(killed).Round(time.Millisecond))
}

// outage: a process that the machine does not run for longer than its margin is late, which is not its fault. It is if
// that happens every time.
func outage(p *place) {
	const tries = 5
	url := p.url
	var late string
	for range tries {
		p.url, p.dir = url, p.T.TempDir()
		if late = outageOnce(p); late == "" {
			return
		}
		p.Log(late)
	}
	p.Errorf("%d times in a row: %s", tries, late)
}

func outageOnce(p *place) (late string) {
	between := redistest.NewProxy(p, p.server.Addr())
	p.url = strings.Replace(p.url, p.server.Addr(), between.Addr(), 1)
	// One that ends when it is asked to, and one that does not.
	polite := p.lease(os.Args[0], p.dir, "{}")
	rude := p.lease("sh", "-c", `trap "" TERM; echo ready; exec sleep 1000`)
	p.issuers(1)
	rude.await("ready")
	between.Refuse(true)
	between.Cut()
	for _, l := range []*lessee{polite, rude} {
		dead := l.endedAt()
		for _, held := range p.leases() {
			if l.holds(held) && !dead.Before(held.Until) {
				late = fmt.Sprintf("worker id %d: the window ended at %v, the program at %v", held.Worker, held.Until, dead)
			} else if l.holds(held) {
				p.Logf("dead %v before the end of the window", held.Until.Sub(dead).Round(time.Millisecond))
			}
		}
		l.code(ExitLeaseOver)
	}
	if !polite.said("could not be extended in time") || !polite.said("code=143") || !rude.said("code=137") {
		p.Error("they do not say why they ended, or ended in another way")
	}
	return late
}

var endedLine = regexp.MustCompile(`(?m)^time=(\S+) level=\S+ msg=ended\b`)

// endedAt waits until the program has ended, and returns when that was by the log: this process may
// learn of it late.
func (l *lessee) endedAt() time.Time {
	l.t.Helper()
	l.await("msg=ended")
	l.mu.Lock()
	defer l.mu.Unlock()
	m := endedLine.FindSubmatch(l.out.Bytes())
	if m == nil {
		l.t.Fatalf("no time of the end in %s", &l.out)
	}
	at, err := time.Parse(time.RFC3339, string(m[1]))
	if err != nil {
		l.t.Fatal(err)
	}
	return at
}

// operator: a program that the machine does not run for a lease ends for that. It is a fault if that happens every
// time.
func operator(p *place) {
	var says string
	for range 5 {
		l := p.lease("sh", "-c", "trap '' TERM; echo ready; exec sleep 1000")
		l.await("ready")
		for _, held := range p.leases() {
			if l.holds(held) {
				insist(p.T, "the lease is ended", func() error {
					_, err := p.pool.Release(context.Background(), held.Worker)
					return err
				})
			}
		}
		l.code(ExitLeaseOver)
		if l.said("the lease is lost") {
			return
		}
		if says = l.text(); !l.said("could not be extended in time") {
			break
		}
	}
	p.Errorf("it does not say why: %s", says)
}

func copied(p *place) {
	p.fault = "cloned"
	file := filepath.Join(p.dir, "asked")
	l := p.lease("sh", "-c", "trap 'touch "+file+"' TERM; while :; do sleep 1 & wait; done")
	l.code(ExitLeaseOver)
	if _, err := os.Stat(file); err == nil {
		p.Error("the program was asked instead of killed")
	}
}

// successors: with yaraus the program lived on, beside the next one with the same worker id.
func successors(p *place) {
	var all []*lessee
	for range 5 {
		all = append(all, p.lease(os.Args[0], p.dir, "{}"))
	}
	p.issuers(3)
	started := func(l *lessee) bool { return l.said("msg=started") }
	redistest.Until(p, "three say so", func() bool { // a program may issue before
		begun := slices.DeleteFunc(slices.Clone(all), func(l *lessee) bool { return !started(l) })
		return len(begun) == 3
	})
	for _, l := range all {
		if started(l) {
			l.Process.Kill()
		}
	}
	p.issuers(5) // the other two, with the worker ids of those
	for _, l := range all {
		l.Process.Signal(syscall.SIGTERM)
	}
	for _, l := range all {
		<-l.exited
	}
	p.verdict()
}

// takingTurns: each gives its worker id back in good order, and the next one may get it at once.
func takingTurns(p *place) {
	const runs = 6 // two for each worker id
	var all []*lessee
	for range runs {
		all = append(all, p.lease(os.Args[0], p.dir, "{}"))
	}
	for ended := map[*lessee]bool{}; len(ended) < runs; {
		redistest.Until(p, "another one runs", func() bool {
			for _, l := range all {
				if !ended[l] && l.issued(p) {
					l.Process.Signal(syscall.SIGTERM)
					ended[l] = true
					return true
				}
			}
			return false
		})
	}
	for _, l := range all {
		l.code(128 + int(syscall.SIGTERM))
	}
	p.givenBack(all...)
	p.verdict()
}

// elders: a script may start something and then become this process by exec.
func elders(p *place) {
	file := filepath.Join(p.dir, "pid")
	script := strings.Join([]string{"sleep 3600 >/dev/null 2>&1 & echo $! > " + file, `exec "$0" sh -c 'exit 4'`}, "\n")
	s := p.leaseBy("sh", "-c", script, os.Args[0])
	s.code(4)
	if pid := readPid(p.T, file); !alive(pid) {
		p.Error("a process that was there before was killed")
	} else {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestASignalBeforeThereIsAWorkerID(t *testing.T) {
	t.Parallel()
	// Nobody answers at this address.
	p := &place{T: t, url: "redis://127.0.0.1:" + strconv.Itoa(redistest.FreePort(t)) + "/0", ids: "1 3"}
	l := p.lease("true")
	l.await("msg=lease")
	l.Process.Signal(syscall.SIGTERM)
	l.code(128 + int(syscall.SIGTERM))
	if l.said("msg=started") {
		t.Error("started")
	}
}
