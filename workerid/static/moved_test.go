package static_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The tests in this file move files away under processes that have them, and back.

func move(t *testing.T, disk *crashdisk.Disk, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := disk.Rename(from+name, to+name); err != nil {
			t.Fatal(err)
		}
	}
}

// runOn extends a grant for a while.
func runOn(t *testing.T, w *world, s *static.Store, g workerid.Grant, ms int64) workerid.Grant {
	t.Helper()
	for range ms / 500 {
		w.pass(500)
		longer, err := extendOne(s, g)
		if err != nil {
			t.Fatal(err)
		}
		g = longer
	}
	return g
}

// Once a daemon was told that another one has its lock, the lease is lost for good: whatever comes
// back, its window does not grow over what the other one issued, and nobody takes its word for
// final while it lives.
func TestFilesMovedAwayAndBack(t *testing.T) {
	for _, files := range [][]string{{lock}, {lock, "worker-7.state"}} {
		w, disk, _ := remembering(t)
		a, held, _ := aRun(t, w)
		move(t, disk, "", "away-", files...)
		b := w.open(t, 7)
		g := mustAcquire(t, b, one)
		if longer, err := extendOne(a, held); !errors.Is(err, workerid.ErrLost) {
			t.Errorf("%v moved away: %+v beside %+v: %v", files, longer, g, err)
		}
		g = runOn(t, w, b, g, 3000)
		move(t, disk, "away-", "", files...)
		if longer, err := extendOne(a, held); !errors.Is(err, workerid.ErrLost) {
			t.Errorf("%v moved back: %+v beside %+v: %v", files, longer, g, err)
		}
		if longer, err := extendOne(b, g); !errors.Is(err, workerid.ErrLost) {
			t.Errorf("%v moved back: %+v, which was %+v: %v", files, longer, g, err)
		}
		if c, err := static.Open(w.config(7)); !errors.Is(err, static.ErrInUse) {
			t.Fatalf("a third one while the first may issue: %v, %v", c, err)
		}
		if again := mustAcquire(t, a, one); again.Lo <= g.Hi || again.Lo <= held.Hi {
			t.Errorf("%v moved back: %+v after %+v and %+v", files, again, held, g)
		}
		a.Close()
		w.open(t, 7)
	}
}

// The lock alone was away, while the daemon was stopped: it has its lock again, and the record is
// another run's.
func TestLockPutBackAfterAnotherRun(t *testing.T) {
	for _, clean := range []bool{false, true} {
		w, disk, _ := remembering(t)
		a, held, _ := aRun(t, w)
		move(t, disk, "", "away-", lock)
		b := w.open(t, 7)
		g := runOn(t, w, b, mustAcquire(t, b, one), 32_000)
		if clean {
			if err := b.Release(ctx, g, w.id); err != nil {
				t.Fatal(err)
			}
		}
		b.Close()
		move(t, disk, "away-", "", lock)
		theirs := string(disk.Read("worker-7.state"))
		if longer, err := extendOne(a, held); !errors.Is(err, workerid.ErrLost) {
			t.Errorf("%+v after %+v: %v", longer, g, err)
		}
		if err := a.Release(ctx, held, held.Lo); !errors.Is(err, workerid.ErrLost) ||
			string(disk.Read("worker-7.state")) != theirs {
			t.Errorf("released over another run's record: %v", err)
		}
		if again := mustAcquire(t, a, one); !clean && again.Lo <= g.Hi || again.Lo <= w.id {
			t.Errorf("%+v after %+v at %d", again, g, w.id)
		}
	}
}

// Between Open and Acquire, too.
func TestLockPutBackBeforeAcquire(t *testing.T) {
	w, disk, _ := remembering(t)
	first, _, _ := aRun(t, w)
	first.Close()
	a := w.open(t, 7)
	move(t, disk, "", "away-", lock)
	b := w.open(t, 7)
	g := runOn(t, w, b, mustAcquire(t, b, one), 32_000)
	b.Close()
	move(t, disk, "away-", "", lock)
	if again := mustAcquire(t, a, one); again.Lo <= g.Hi {
		t.Errorf("%+v after %+v", again, g)
	}
}

// A copy of the record comes in place of the record: it is this run's, and has a mark that is too
// low, until it is written anew at once.
func TestOlderRecordUnderARunningDaemon(t *testing.T) {
	w, disk, _ := remembering(t)
	a, held, _ := aRun(t, w)
	old := disk.Read("worker-7.state")
	held = runOn(t, w, a, held, 40_000)
	disk.Write("worker-7.state", old)
	w.pass(1)
	if longer, err := extendOne(a, held); err != nil || longer.Hi != w.id+near {
		t.Errorf("%+v, %v", longer, err)
	}
	if m := mark(t, disk); m != w.id+far {
		t.Errorf("the mark is %d ms ahead", m-w.id)
	}
}

// The same, and the daemon is killed before it sees that: its word is the larger.
func TestOlderRecordAfterAKill(t *testing.T) {
	w, disk, _ := remembering(t)
	a, held, _ := aRun(t, w)
	old := disk.Read("worker-7.state")
	ids := a.Word(7, held.Lo)
	held = runOn(t, w, a, held, 40_000)
	ids.Store(uint64(w.id+1-generator.Katsubushi().Epoch) << 12)
	a.Close()
	disk.Write("worker-7.state", old)
	if g := mustAcquire(t, w.open(t, 7), one); g.Lo != w.id+1 {
		t.Errorf("%+v, and the last id was at %d", g, w.id)
	}
	if !strings.Contains(w.log.String(), "the state file is older than the last ids") {
		t.Error(w.log)
	}
}

// On a full disk a record is overwritten in place, and whoever has the file open could not tell:
// not while its writer may live.
func TestFullDiskBesideAStoppedDaemon(t *testing.T) {
	w, disk, _ := remembering(t)
	aRun(t, w)
	move(t, disk, "", "away-", lock)
	disk.Fault = func(op string) error {
		if strings.HasPrefix(op, "write worker-7.state.") {
			return syscall.ENOSPC
		}
		return nil
	}
	theirs := string(disk.Read("worker-7.state"))
	if g, err := w.open(t, 7).Acquire(ctx, one); !errors.Is(err, syscall.ENOSPC) ||
		string(disk.Read("worker-7.state")) != theirs {
		t.Errorf("%+v, %v", g, err)
	}
}

// Somebody writes into the page of a running daemon, and its word goes back: the generator is to be
// sealed, what it says is not recorded, and the next window begins above the one that was granted.
func TestWordSetBackUnderARunningDaemon(t *testing.T) {
	for _, releases := range []bool{false, true} {
		w, disk, memory := remembering(t)
		a, held, _ := aRun(t, w)
		then := memory.At()
		held = runOn(t, w, a, held, 3000)
		memory.Overwrite(then)
		recorded := mark(t, disk)
		if releases {
			if err := a.Release(ctx, held, w.id-3000); !errors.Is(err, workerid.ErrShared) {
				t.Errorf("released: %v", err)
			}
			a.Close()
			if g := mustAcquire(t, w.open(t, 7), one); g.Lo != recorded+1 {
				t.Errorf("%+v, and %d was recorded", g, recorded)
			}
			continue
		}
		if longer, err := extendOne(a, held); !errors.Is(err, workerid.ErrShared) {
			t.Errorf("%+v: %v", longer, err)
		}
		g := mustAcquire(t, a, one)
		if g.Lo <= held.Hi || g.Lo > w.id+near+1 {
			t.Errorf("%+v after %+v at %d", g, held, w.id)
		}
		ids := generate(t, a, g)
		w.pass(near + 1)
		longer, err := extendOne(a, g)
		if err != nil || ids.Extend(g.Hi+1, longer.Hi) != nil {
			t.Fatal(longer, err)
		}
		if _, err := ids.Take(w.id, w.id, 1); err != nil {
			t.Fatal(err)
		}
		a.Close()
		if g := mustAcquire(t, w.open(t, 7), one); g.Lo != ids.Position()+1 {
			t.Errorf("%+v: the new page is not believed", g)
		}
	}
}

// A write waits for a disk that stands still, or is stopped before it puts a new file in place,
// while another run comes and goes: it leaves the other's record alone.
func TestWriteAfterAnotherRun(t *testing.T) {
	for _, anew := range []bool{false, true} {
		w, disk, _ := remembering(t)
		var theirs []byte
		other := func() {
			move(t, disk, "", "away-", lock)
			another := *w
			another.disk = disk
			b := another.open(t, 7)
			mustAcquire(t, b, one)
			b.Close()
			move(t, disk, "away-", "", lock)
			theirs = disk.Read("worker-7.state")
		}
		meddling := &meddled{Disk: disk, at: "open"}
		w.disk = meddling
		c := w.config(7)
		var waiting func()
		c.Background = func(f func()) { waiting = f }
		a, err := static.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		held := mustAcquire(t, a, one)
		beat := func() {
			t.Helper()
			w.pass(4000)
			if held, err = extendOne(a, held); err != nil || waiting == nil {
				t.Fatal(held, err)
			}
		}
		beat()
		if anew {
			disk.Fault = func(op string) error {
				if strings.HasPrefix(op, "datasync") {
					return syscall.EIO
				}
				return nil
			}
			waiting()
			disk.Fault = nil
			beat()
			meddling.do = other
		} else {
			other()
		}
		disk.Trace = nil
		waiting()
		if !anew && len(disk.Trace) > 0 {
			t.Errorf("it has %q to do with another's file", disk.Trace)
		}
		if theirs == nil || string(disk.Read("worker-7.state")) != string(theirs) {
			t.Errorf("anew %v: the other's record is overwritten", anew)
		}
		if longer, err := extendOne(a, held); !errors.Is(err, workerid.ErrLost) {
			t.Errorf("anew %v: %+v, %v", anew, longer, err)
		}
		a.Close()
	}
}
