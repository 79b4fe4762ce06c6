package static_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

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
