package static_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The tests in this file delete locks under processes that have them.

// A meddled disk lets something happen right before one of its operations.
type meddled struct {
	*crashdisk.Disk
	at   string
	full bool // for new files
	do   func()
}

func (m *meddled) before(op string) {
	if do := m.do; op == m.at && do != nil {
		m.do = nil
		do()
	}
}

func (m *meddled) Open(path string, create bool) (static.File, error) {
	if strings.HasSuffix(path, ".tmp") {
		m.before("open")
		if m.full {
			return nil, syscall.ENOSPC
		}
	}
	return m.Disk.Open(path, create)
}

func (m *meddled) Rename(from, to string) error {
	m.before("rename")
	return m.Disk.Rename(from, to)
}

func (m *meddled) Remove(path string) error {
	m.before("remove")
	return m.Disk.Remove(path)
}

// While a process starts, its lock is deleted and another one starts: it is granted nothing, and
// leaves the other's file alone as long as that can be told.
func TestLockDeletedDuringAStart(t *testing.T) {
	for _, c := range []struct {
		at   string
		full bool
	}{{"open", false}, {"rename", false}, {"remove", true}} {
		w, disk, _ := remembering(t)
		first, _, _ := aRun(t, w)
		first.Close()
		var b *static.Store
		var other workerid.Grant
		var theirs []byte
		w.disk = &meddled{Disk: disk, at: c.at, full: c.full, do: func() {
			if err := disk.Remove(lock); err != nil {
				t.Fatal(err)
			}
			another := *w
			another.disk = disk
			b = another.open(t, 7) // it has read what there was
			if c.at != "rename" {
				other = mustAcquire(t, b, one)
				theirs = disk.Read("worker-7.state")
			}
		}}
		if g, err := w.open(t, 7).Acquire(ctx, one); err == nil {
			t.Errorf("at %s: %+v beside %+v", c.at, g, other)
		}
		if c.at == "rename" {
			mustAcquire(t, b, one)
		} else if string(disk.Read("worker-7.state")) != string(theirs) {
			t.Errorf("at %s: the other's file is %.200s", c.at, disk.Read("worker-7.state"))
		}
	}
}
