package static_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const (
	near = 2000          // ms that windows reach beyond the present
	far  = near + 28_000 // and marks, where the next run need not wait for them
	lock = "worker-7.lock"
)

// remembering is a world on a simulated disk, with memory that outlives processes.
func remembering(t *testing.T) (*world, *crashdisk.Disk, *crashdisk.Memory) {
	w, disk, memory := newWorld(t), &crashdisk.Disk{}, &crashdisk.Memory{}
	w.disk, w.memory = disk, memory
	return w, disk, memory
}

// generate makes the generator of a window.
func generate(t *testing.T, s *static.Store, g workerid.Grant) *generator.Snowflake {
	t.Helper()
	ids, err := generator.NewSnowflake(generator.Options{Layout: generator.Katsubushi(), Worker: 7, Lo: g.Lo, Hi: g.Hi,
		Word: s.Word(7, g.Lo)})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// aRun is a process that has issued ids up to a Unix ms, and can be killed.
func aRun(t *testing.T, w *world) (s *static.Store, g workerid.Grant, last int64) {
	t.Helper()
	s = w.open(t, 7)
	g = mustAcquire(t, s, one)
	ids := generate(t, s, g)
	for g.Hi < w.id+1000 || g.Lo > w.id {
		w.pass(500)
		longer, err := extendOne(s, g)
		if err != nil || ids.Extend(g.Hi+1, longer.Hi) != nil {
			t.Fatal(longer, err)
		}
		g = longer
	}
	if _, err := ids.Take(w.id, w.id, 1); err != nil {
		t.Fatal(err)
	}
	return s, g, ids.Position()
}

func mark(t *testing.T, disk *crashdisk.Disk) int64 {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "worker-7.state"), disk.Read("worker-7.state"), 0o600); err != nil {
		t.Fatal(err)
	}
	return inspectOne(t, dir).HighWater.UnixMilli()
}

// The disk stands still for 25 s: nobody is refused, and nobody waits. After that there is nothing
// left to grant, until it answers.
func TestDiskThatStandsStill(t *testing.T) { shareOrNot(t, diskThatStandsStill) }

func diskThatStandsStill(t *testing.T, share bool) {
	w, disk, _ := remembering(t)
	w.share = share
	var waiting []func()
	hangs := false
	c := w.config(7)
	c.Background = func(f func()) {
		if waiting = append(waiting, f); !hangs {
			f()
			waiting = nil
		}
	}
	s, err := static.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	g := mustAcquire(t, s, one)
	beat := func() error {
		w.pass(500)
		r, err := s.Extend(&impatient{Context: ctx}, []workerid.Grant{g})
		if err == nil {
			err = r[0].Err
		}
		if err == nil {
			g.Hi = max(g.Hi, r[0].Grant.Hi)
		}
		return err
	}
	for range 350 {
		if err := beat(); err != nil || g.Hi != w.id+near {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	hangs = true
	trace := len(disk.Trace)
	for i := range 50 {
		if err := beat(); err != nil || g.Hi != w.id+near && i < 46 {
			t.Fatalf("after %d beats: %d ms left, %v", i, g.Hi-w.id, err)
		}
	}
	if c := s.Figures(nil); fmt.Sprint(c.Unwritten) != "the disk has not answered for 23s" || c.Left <= 0 ||
		c.Left.Seconds() > 7 {
		t.Errorf("%+v", c)
	}
	if g.Hi < w.id+500 {
		t.Errorf("%d ms left after 25 s", g.Hi-w.id)
	}
	for range 12 {
		err = beat()
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("after 31 s: %v", err)
	}
	if got := disk.Trace[trace:]; len(got) != 0 || len(waiting) != 1 {
		t.Errorf("%d writes wait, and meanwhile: %q", len(waiting), got)
	}
	if log := w.log.String(); strings.Count(log, "the disk of the state file does not answer") != 1 ||
		!strings.Contains(log, "for=3s left=2") {
		t.Errorf("%s", log)
	}
	hangs = false
	waiting[0]()
	waiting = nil
	if err := beat(); err != nil || g.Hi < w.id {
		t.Errorf("%+v, %v", g, err)
	}
	if err := beat(); err != nil || g.Hi != w.id+near || !strings.Contains(w.log.String(), "state file written again") {
		t.Errorf("%+v, %v, %s", g, err, w.log)
	}
	if c := s.Figures(nil); c != (workerid.Condition{}) {
		t.Errorf("%+v", c)
	}
}

// An impatient context has ended by the time that somebody waits for it.
type impatient struct {
	context.Context
	waits bool
}

func (c *impatient) Done() <-chan struct{} {
	c.waits = true
	done := make(chan struct{})
	close(done)
	return done
}

func (c *impatient) Err() error {
	if c.waits {
		return context.DeadlineExceeded
	}
	return nil
}

// A daemon that is stopped while the disk stands still ends: it records nothing, and does not wait.
func TestStopWhileTheDiskStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := remembering(t)
		var stalled func()
		c := w.config(7)
		c.Background = func(f func()) { stalled = f }
		s, err := static.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		g := mustAcquire(t, s, one)
		w.pass(4000)
		if g, err = extendOne(s, g); err != nil || g.Hi != w.id+near || stalled == nil {
			t.Fatal(g, err)
		}
		patience, cancel := context.WithTimeout(ctx, 1_000_000_000)
		defer cancel()
		if err := s.Release(patience, g, g.Hi); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := s.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if other, err := static.Open(w.config(7)); !errors.Is(err, static.ErrInUse) {
			t.Errorf("the write may still come: %v, %v", other, err)
		}
		stalled()
		w.open(t, 7)
	})
}

// A memory that hands out the same page again, which no memory may.
type samePage struct {
	static.Memory
	page static.Page
}

func (m *samePage) Make(nonce string, issued int64) (_ static.Page, err error) {
	if m.page.Word == nil {
		m.page, err = m.Memory.Make(nonce, issued)
	}
	return m.page, err
}

// The generator of a lost lane stays sealed, used or not: the next grant leaves its word alone, even if
// that should be on the same page.
func TestGrantLeavesTheWordOfALostLaneAlone(t *testing.T) {
	for _, used := range []bool{false, true} {
		w, _, memory := remembering(t)
		first, _, _ := aRun(t, w)
		first.Close()
		w.memory = &samePage{Memory: memory}
		s := w.open(t, 7)
		g := mustAcquire(t, s, one)
		old, word := generate(t, s, g), s.Word(7, g.Lo)
		if used {
			if _, err := old.Take(w.id, w.id+1000, 5); err != nil {
				t.Fatal(err)
			}
		}
		old.Seal()
		memory.Overwrite(memory.At()) // the page was written to: the lease is lost
		if longer, err := extendOne(s, g); !errors.Is(err, workerid.ErrShared) {
			t.Fatalf("%+v, %v", longer, err)
		}
		was := word.Load()
		if again, err := s.Acquire(ctx, one); err == nil {
			t.Errorf("%+v with the word of %+v", again, g)
		}
		if r, err := old.Take(w.id, w.id+1000, 1); !errors.Is(err, generator.ErrSealed) || word.Load() != was {
			t.Errorf("%v, %v from the generator of a lost lane; its word was %x, and is %x", r, err, was, word.Load())
		}
		w.memory.(*samePage).page = static.Page{}
		if again := mustAcquire(t, s, one); again.Lo <= g.Hi || s.Word(7, again.Lo) == word {
			t.Errorf("%+v after %+v", again, g)
		}
		if _, err := old.Take(w.id, w.id+1000, 1); !errors.Is(err, generator.ErrSealed) {
			t.Errorf("no longer sealed: %v", err)
		}
	}
}

// Whoever issues from a window that has a word must use it: else the word says what is not so, and
// is not believed.
func TestWordOfAnotherWindow(t *testing.T) {
	w, _, _ := remembering(t)
	s, g, _ := aRun(t, w)
	if s.Word(7, g.Lo+1) != nil || s.Word(8, g.Lo) != nil {
		t.Error("a word for a window that was not granted")
	}
	if _, err := generator.NewSnowflake(generator.Options{Layout: generator.Katsubushi(), Worker: 7, Lo: g.Lo, Hi: g.Hi,
		Word: s.Word(7, g.Lo)}); err == nil {
		t.Error("two generators with one word")
	}
}
