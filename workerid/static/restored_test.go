package static_test

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

// The tests in this file put back a directory as it was before the last run, and see where the next run starts.

// aBusyRun has issued all that it may at the present, so that its last ids are ahead of the clock. It returns its
// generator's last position. stop gives the worker id back; otherwise the run is killed.
func aBusyRun(t *testing.T, w *world, stop bool) (last int64) {
	t.Helper()
	s := w.open(t, 7)
	g := mustAcquire(t, s, one)
	ids := generate(t, s, g)
	for g.Hi < w.id+near || g.Lo > w.id {
		w.pass(500)
		longer, err := extendOne(s, g)
		if err != nil || ids.Extend(g.Hi+1, longer.Hi) != nil {
			t.Fatal(longer, err)
		}
		g = longer
	}
	for {
		if _, err := ids.Take(w.id, w.id+1000, 1<<12); err != nil {
			break
		}
	}
	if last = ids.Position(); last < w.id+1000 {
		t.Fatalf("the last id is at %d, and the clock at %d", last, w.id)
	}
	if stop {
		if err := s.Release(ctx, g, ids.Seal()); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	return last
}

func TestRestoredDirectory(t *testing.T) {
	for what, c := range map[string]struct {
		noMemory bool // where words do not outlive a process
		stopped  bool // cleanly, before the copy was made
		clean    bool // the last run was, too
		lock     bool // is put back, too
		reboot   bool // and the machine was started anew before
		repeats  bool // what is documented
	}{
		"copied after a kill":                                  {},
		"copied after a kill, the last run stopped":            {clean: true},
		"copied after a kill, without words":                   {noMemory: true},
		"copied after a kill, with the lock":                   {lock: true},
		"copied after a kill, and another boot":                {reboot: true},
		"copied after a clean stop":                            {stopped: true},
		"copied after a clean stop, the last run stopped":      {stopped: true, clean: true},
		"copied after a clean stop, with the lock":             {stopped: true, lock: true},
		"copied after a clean stop, without words, with lock":  {stopped: true, noMemory: true, lock: true},
		"copied after a clean stop, without words":             {stopped: true, noMemory: true, repeats: true},
		"copied after a clean stop, and another boot at once.": {stopped: true, reboot: true, repeats: true},
	} {
		t.Run(what, func(t *testing.T) {
			w, disk, _ := remembering(t)
			if c.noMemory {
				w.memory = nil
			}
			aBusyRun(t, w, c.stopped)
			state := disk.Read("worker-7.state")
			w.pass(60_000)
			last := aBusyRun(t, w, c.clean)
			disk.Write("worker-7.state", state)
			if c.lock {
				disk.Write(lock, nil)
			}
			if c.reboot {
				w.clocks.BootID = "boot-2"
			}
			g := mustAcquire(t, w.open(t, 7), one)
			// The generator begins at the present if that is later.
			if repeats := max(g.Lo, w.id) <= last; repeats != c.repeats {
				t.Errorf("%+v at %d; the last id was at %d", g, w.id, last)
			}
			if !c.repeats && g.Lo > w.id+near+1 {
				t.Errorf("it waits for %d ms", g.Lo-w.id)
			}
		})
	}
}

// A clean stop and a word that is believed cost no wait, whether words outlive the process or not.
func TestStartAfterACleanStop(t *testing.T) {
	boots := 1
	for what, then := range map[string]func(*world, *crashdisk.Memory){
		"at once":       func(*world, *crashdisk.Memory) {},
		"without words": func(w *world, _ *crashdisk.Memory) { w.memory = nil },
		"after another boot": func(w *world, m *crashdisk.Memory) {
			m.Lose()
			boots++
			w.clocks.BootID = fmt.Sprint("boot-", boots)
		},
		"on a system without boot ids": func(w *world, _ *crashdisk.Memory) { w.clocks.BootID = "" },
	} {
		w, disk, memory := remembering(t)
		for range 2 {
			then(w, memory)
			last := aBusyRun(t, w, true)
			then(w, memory)
			if m := mark(t, disk); m != last {
				t.Errorf("%s: the mark is at %d, the last id was at %d", what, m, last)
			}
			if s := w.open(t, 7); mustAcquire(t, s, one).Lo != last+1 {
				t.Errorf("%s: it does not start right above the last id", what)
			} else {
				s.Close()
			}
			w.pass(60_000)
		}
	}
}

// A container that is made anew loses its words. After a clean stop that costs a second, once: the record cannot be
// told from a copy until it says that words do not survive there.
func TestCleanStopWhereWordsAreLost(t *testing.T) {
	w, _, memory := remembering(t)
	for i := range 3 {
		last := aBusyRun(t, w, true)
		memory.Lose()
		want := last + 1
		if i == 0 {
			want = w.id + near + 1
		}
		s := w.open(t, 7)
		if g := mustAcquire(t, s, one); g.Lo != want {
			t.Errorf("%d: starts at %d ms; the last id was at %d", i, g.Lo-w.id, last-w.id)
		} else if err := s.Release(ctx, g, g.Lo-1); err != nil {
			t.Error(err)
		}
		memory.Lose()
		w.pass(60_000)
	}
}

// A killed run's mark counts where no word is believed, and the clock if that is further.
func TestStartWithoutAWord(t *testing.T) {
	for _, c := range []struct{ passed, want int64 }{{0, near}, {500, near + 500}, {10_000, near + 10_000}} {
		w := newWorld(t)
		w.disk = &crashdisk.Disk{}
		aBusyRun(t, w, false)
		killed := w.id
		w.pass(c.passed)
		if g := mustAcquire(t, w.open(t, 7), one); g.Lo != killed+c.want+1 {
			t.Errorf("%d ms after a kill: %d ms ahead of it", c.passed, g.Lo-killed)
		}
	}
}
