package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/mount"
)

// frozenDisk is a file system of its own, on a file, that can be frozen: whoever writes to it then
// waits. It skips the test where that is not allowed.
func frozenDisk(t *testing.T) (dir string, freeze, thaw func()) {
	t.Helper()
	d, err := mount.NewDisk(t)
	if err != nil {
		t.Skip(err)
	}
	freeze = func() {
		t.Helper()
		if err := d.Freeze(); err != nil {
			t.Skipf("the disk cannot be frozen: %v", err)
		}
	}
	thaw = func() {
		if err := d.Thaw(); err != nil {
			t.Error(err)
		}
	}
	return d.Dir, freeze, thaw
}

// TestProcessStateDiskStandsStill: a disk that does not answer keeps nobody waiting, neither the
// clients nor who stops the daemon.
func TestProcessStateDiskStandsStill(t *testing.T) {
	t.Parallel()
	long := 4 * time.Second // with windows of two seconds, and no more, half of it would be refused
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		long = 20 * time.Second
	}
	dir, freeze, thaw := frozenDisk(t)
	c := census{lanes: 1}
	args := []string{"-worker-id", "27", "-state-dir", dir}
	d := start(t, args...)
	l := c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 1000)
	freeze()
	frozen := time.Now()
	await(t, "the disk has stood still for long enough", func() bool { return time.Since(frozen) > long })
	l.awaitMore(t, 1000)
	c.noneRefused(t)
	await(t, "it says that the disk does not answer", func() bool {
		return d.Entry("the disk of the state file does not answer: ids go on from what was reserved") != nil
	})
	l.finish(t)

	d.Process.Signal(syscall.SIGTERM)
	await(t, "it stops though the disk stands still", func() bool { return d.Entry("stopped") != nil })
	thaw()
	<-d.Ended() // what it had begun to write ends with the process

	// It could not record where it stopped. Its word says that.
	largest := c.newRun()
	d = start(t, args...)
	d.waitedForNothing(t)
	l = c.load(t, d.Addr(), 4, 20)
	l.awaitMore(t, 1000)
	l.finish(t)
	c.noneRefused(t)
	c.above(t, largest)
	c.verdict(t)
}

// waitedForNothing fails the test if the daemon was not ready at once.
func (p *process) waitedForNothing(t *testing.T) {
	t.Helper()
	if log := p.Logged(); strings.Contains(log, "the clock has yet to reach the window") {
		t.Errorf("it had to wait: %s", log)
	}
}

// TestProcessKilledAndStartedAtOnce: what is reserved lies half a minute ahead, and nobody waits
// for it.
func TestProcessKilledAndStartedAtOnce(t *testing.T) {
	t.Parallel()
	pages, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(pages) })
	c := census{lanes: 2, hasty: true}
	args := append(onDisk(t), "-worker-id", "28,29")
	again := func() *process {
		d := launchIn(t, []string{"RUNTIME_DIRECTORY=" + pages + ":/elsewhere"}, args...)
		d.WaitListening(t)
		await(t, "each worker id has one page", func() bool { // the first of them to serve opens the port
			left, err := os.ReadDir(pages)
			return err == nil && len(left) == 2
		})
		return d
	}
	d := again()
	for range 3 {
		l := c.load(t, d.Addr(), 4, 200)
		l.awaitMore(t, 50_000)
		l.kill(d)
		d = again()
		d.waitedForNothing(t)
	}
	await(t, "marks are far ahead", func() bool {
		all := marksAhead(t, args) // a slow disk may hold them back for a moment
		return len(all) == 2 && slices.Min(all) > 20*time.Second
	})
	l := c.load(t, d.Addr(), 4, 200)
	l.awaitMore(t, 20_000)
	l.finish(t)
	c.verdict(t)
}

// marksAhead is how far ahead of the clock each worker id is recorded to be reserved.
func marksAhead(t *testing.T, args []string) (all []time.Duration) {
	t.Helper()
	_, out, _ := runState(args[1], "show", "-json")
	for line := range strings.Lines(out) {
		_, mark, _ := strings.Cut(line, `"mark":"`)
		mark, _, _ = strings.Cut(mark, `"`)
		at, err := time.Parse(time.RFC3339, mark)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		all = append(all, time.Until(at))
	}
	return all
}

// TestProcessStateFilesDeleted: somebody deletes the files of a daemon and starts another one,
// which cannot see the first: it is in another network namespace, or makes no claim. The first one
// is stopped meanwhile, and then both serve.
func TestProcessStateFilesDeleted(t *testing.T) {
	t.Parallel()
	c := census{lanes: 2}
	args := append(onDisk(t), "-worker-id", "30")
	first := start(t, args...)
	a := c.load(t, first.Addr(), 2, 20)
	a.awaitMore(t, 1000)
	for _, long := range []bool{false, true} {
		first.Pause(t)
		for _, name := range []string{"worker-30.lock", "worker-30.state"} {
			if err := os.Remove(filepath.Join(args[1], name)); err != nil {
				t.Fatal(err)
			}
		}
		second := start(t, args...)
		b := c.load(t, second.Addr(), 2, 20)
		b.awaitMore(t, 1)
		begins, refused := b.newest.Load(), a.refused.Load() // at first it issues from the next second
		first.Resume(t)
		if long {
			await(t, "the first one refuses, or issues from the time of the second one's ids", func() bool {
				return a.refused.Load() > refused || a.newest.Load() > begins
			})
		}
		b.awaitMore(t, 3000)
		b.kill(second)
		if !long {
			a.awaitMore(t, 1000) // from its window, at least
		}
	}
	a.finish(t)
	c.verdict(t)
}

// The disk does not answer: values come while the block lasts, then a refusal after -max-wait. Other keys of the same
// loop are answered all the time, and with the disk values come back.
func TestProcessSequenceDiskStandsStill(t *testing.T) {
	t.Parallel()
	dir, freeze, thaw := frozenDisk(t)
	p := start(t, "-worker-id", "28", "-state-dir", dir, "-loops", "1", "-max-wait", "300ms", "-generator",
		"orders sequence batch=40")
	c, other := countFrom(t, p), countFrom(t, p)
	var last uint64
	await(t, "a value", func() (ok bool) { // on a busy machine, the first block may take longer than -max-wait
		v, says := c.get(t, "orders")
		last = v
		return says == ""
	})
	freeze()
	says := ""
	n := 0
	for ; says == ""; n++ {
		var v uint64
		if v, says = c.get(t, "orders"); says == "" {
			if v != last+1 {
				t.Fatalf("%d after %d", v, last)
			}
			last = v
		}
		other.must(t, "id")
	}
	if n < 20 || n > 200 {
		t.Errorf("%d values came from the blocks at hand", n)
	}
	if !strings.HasPrefix(says, "SERVER_ERROR sequence orders: no block for ") {
		t.Errorf("the refusal is %q", says)
	}
	other.must(t, "id")
	thaw()
	await(t, "values come again", func() bool {
		v, says := c.get(t, "orders")
		if says == "" && v <= last {
			t.Fatalf("%d after %d", v, last)
		}
		return says == ""
	})
	p.end(t, syscall.SIGTERM)
}
