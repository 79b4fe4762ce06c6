package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/mount"
)

func define(t *testing.T, s *file.Store) {
	t.Helper()
	if _, err := s.Define(ctx, odd); err != nil {
		t.Fatal(err)
	}
}

func reserve(t *testing.T, s *file.Store, n, lo, hi uint64) counter.Block {
	t.Helper()
	b, err := s.Reserve(ctx, odd.Name, n)
	if err != nil || b.Lo != lo || b.Hi != hi {
		t.Fatalf("%+v, %v; want %d to %d", b, err, lo, hi)
	}
	return b
}

// A meddled disk lets something happen before one of its operations, once.
type meddled struct {
	*crashdisk.Disk
	at string
	do func()
}

func (m *meddled) before(op string) {
	if do := m.do; op == m.at && do != nil {
		m.do = nil
		do()
	}
}

func (m *meddled) Open(path string, create bool) (durable.File, error) {
	if strings.HasSuffix(path, ".tmp") {
		m.before("open")
	}
	return m.Disk.Open(path, create)
}

func (m *meddled) Rename(from, to string) error {
	m.before("rename")
	return m.Disk.Rename(from, to)
}

func (m *meddled) SyncDir(dir string) error {
	m.before("syncdir")
	return m.Disk.SyncDir(dir)
}

// Somebody deletes the lock in the middle of a write, and another daemon reserves before it is over.
func TestLockDeleted(t *testing.T) {
	for _, at := range []string{"open", "rename", "syncdir"} {
		w := newWorld()
		disk := &crashdisk.Disk{}
		w.disk = disk
		other := w.open(t)
		define(t, other)
		m := &meddled{Disk: disk, at: at}
		w.disk = m
		s := w.open(t)
		var theirs counter.Block
		m.do = func() {
			if err := disk.Remove("orders.lock"); err != nil {
				t.Fatal(err)
			}
			theirs, _ = other.Reserve(ctx, odd.Name, 10)
		}
		ours, err := s.Reserve(ctx, odd.Name, 10)
		if err == nil && theirs.Hi != 0 && ours.Lo <= theirs.Hi && theirs.Lo <= ours.Hi {
			t.Errorf("at %s: %+v and %+v", at, ours, theirs)
		}
		if err == nil {
			t.Errorf("at %s: %+v was granted without a lock", at, ours)
		}
		b, err := s.Reserve(ctx, odd.Name, 10)
		if err != nil || b.Lo <= theirs.Hi {
			t.Errorf("at %s: then %+v, %v after %+v", at, b, err, theirs)
		}
	}
}

// A process overwrites its own file in place, and nobody else's: the page cache may hide an error
// of theirs. Generations grow with every write.
func TestOverwritesOnlyItsOwnFile(t *testing.T) {
	w := newWorld()
	disk := &crashdisk.Disk{}
	w.disk = disk
	s, other := w.open(t), w.open(t)
	define(t, s)
	for i, c := range []struct {
		who     *file.Store
		renames int
		full    bool
	}{{s, 0, false}, {s, 0, true}, {other, 1, false}, {other, 0, false}, {s, 1, false}, {s, 0, false}, {other, 0, true},
		{s, 1, false}} {
		disk.Trace = nil
		disk.Fault = func(op string) error {
			if c.full && strings.HasPrefix(op, "write orders.sequence.tmp") {
				return syscall.ENOSPC
			}
			return nil
		}
		if _, err := c.who.Reserve(ctx, odd.Name, 1); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(strings.Join(disk.Trace, "\n"), "rename"); n != c.renames {
			t.Errorf("step %d: %d renames, want %d: %q", i, n, c.renames, disk.Trace)
		}
		if want := fmt.Sprintf("\ngeneration %d\n", i+2); strings.Count(string(disk.Read("orders.sequence")), want) != 2 {
			t.Errorf("step %d: not %q in %.60q", i, want, disk.Read("orders.sequence"))
		}
	}
}

func TestStrict(t *testing.T) {
	w := newWorld()
	a, b := w.open(t), w.open(t)
	d := odd
	d.Strict = true
	for _, s := range []*file.Store{a, b} {
		if _, err := s.Define(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	reserve(t, a, 1, 101, 101)
	if got, err := b.Reserve(ctx, d.Name, 1); !errors.Is(err, durable.ErrInUse) || counter.Certain(err) ||
		!strings.Contains(err.Error(), "order=strict: another process issues") {
		t.Errorf("beside another: %+v, %v", got, err)
	}
	if _, err := b.Raise(ctx, d.Name, 150); err != nil { // an operator may
		t.Fatal(err)
	}
	reserve(t, a, 1, 151, 151)
	a.Close()
	reserve(t, b, 1, 153, 153)
	if err := w.disk.(*crashdisk.Disk).Remove("orders.strict"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Reserve(ctx, d.Name, 1); err == nil || !strings.Contains(err.Error(), "orders.strict was deleted") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTmpfsIsRefused(t *testing.T) {
	dir := mount.Small(t, "64k")
	if _, err := file.Open(file.Config{Dir: dir}); !errors.Is(err, durable.ErrFileSystem) ||
		!strings.Contains(err.Error(), "is on tmpfs") {
		t.Errorf("a directory that is there: %v", err)
	}
	s, err := file.Open(file.Config{Dir: filepath.Join(dir, "sequences")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Define(ctx, odd); !errors.Is(err, durable.ErrFileSystem) {
		t.Errorf("one to be made: %v", err)
	}
}

// A disk that is really full.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(mount.Small(t, "64k"), "sequences")
	open := func() *file.Store {
		s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	define(t, s)
	reserve(t, s, 10, 101, 119)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	reserve(t, s, 10, 121, 139) // in place
	s = open()
	reserve(t, s, 10, 141, 159) // a new process, in place too
	if _, err := s.Raise(ctx, odd.Name, 200); err != nil {
		t.Error(err)
	}
	d := odd
	d.Name = "new"
	if r, err := s.Define(ctx, d); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("another sequence: %+v, %v", r, err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Define(ctx, d); err != nil {
		t.Errorf("with room again: %v", err)
	}
	reserve(t, s, 1, 201, 201)
}

// A stalled disk answers nothing about one file until the gate is opened.
type stalled struct {
	*crashdisk.Disk
	file string
	gate chan struct{}
}

func (d *stalled) Open(path string, create bool) (durable.File, error) {
	if filepath.Base(path) == d.file {
		<-d.gate
	}
	return d.Disk.Open(path, create)
}

// Calls return when their context ends, those for other sequences go on, and what was under way is no
// block that anybody could get again.
func TestStalledDisk(t *testing.T) {
	w := newWorld()
	var mu sync.Mutex
	d := &stalled{Disk: &crashdisk.Disk{}, gate: make(chan struct{}), file: "orders.lock"}
	w.disk = d
	c := w.config()
	token := c.Token
	c.Token = func() string {
		mu.Lock()
		defer mu.Unlock()
		return token()
	}
	s, err := file.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	d.file = "" // not yet
	define(t, s)
	other := odd
	other.Name = "items"
	if _, err := s.Define(ctx, other); err != nil {
		t.Fatal(err)
	}
	d.file = "orders.lock"
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if b, err := s.Reserve(short, odd.Name, 10); !errors.Is(err, context.DeadlineExceeded) || counter.Certain(err) ||
				!strings.Contains(err.Error(), "does not answer") {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
	wg.Wait()
	if b, err := s.Reserve(ctx, other.Name, 10); err != nil || b.Lo != 101 {
		t.Errorf("another sequence: %+v, %v", b, err)
	}
	close(d.gate)
	reserve(t, s, 10, 101, 119) // nobody waited any more for what was under way, so it granted nothing
	d.gate, d.file = make(chan struct{}), "orders.lock"
	if b, err := s.Reserve(short, odd.Name, 10); err == nil {
		t.Errorf("%+v", b)
	}
	if err := s.Close(); err != nil { // it does not wait
		t.Error(err)
	}
	close(d.gate)
}

// What an operator did is noticed, even if they were killed before they could say so.
func TestChangesThatWereNotAnnounced(t *testing.T) {
	w := newWorld()
	disk := &crashdisk.Disk{}
	w.disk = disk
	s := w.open(t)
	define(t, s)
	since, list, err := s.Changes(ctx, "")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	disk.Trace = nil
	for range 3 {
		if _, list, err := s.Changes(ctx, since); err != nil || len(list) > 0 {
			t.Fatal(list, err)
		}
	}
	if got := fmt.Sprint(disk.Trace); strings.Contains(got, "orders") || strings.Contains(got, "names") {
		t.Errorf("three questions without an answer cost %s", got)
	}
	disk.Fault = func(op string) error {
		if strings.HasPrefix(op, "write changes") {
			return syscall.EIO
		}
		return nil
	}
	if _, err := w.open(t).Raise(ctx, odd.Name, 500); err != nil {
		t.Fatal(err)
	}
	disk.Fault = nil
	if _, list, err := file.Later(s, time.Minute).Changes(ctx, since); err != nil || len(list) != 1 ||
		list[0].Floor != 500 {
		t.Errorf("a minute later: %+v, %v", list, err)
	}
}

// A bad block: the record is there and cannot be read. Nothing is made in its place, and the others go on.
func TestARecordThatCannotBeRead(t *testing.T) {
	w, disk := newWorld(), &crashdisk.Disk{}
	w.disk = disk
	s := w.open(t)
	define(t, s)
	items := odd
	items.Name = "items"
	if _, err := s.Define(ctx, items); err != nil {
		t.Fatal(err)
	}
	reserved, err := s.Reserve(ctx, odd.Name, 5)
	if err != nil {
		t.Fatal(err)
	}
	before := disk.Read("orders.sequence")
	disk.Fault = func(op string) error {
		if op == "read orders.sequence" {
			return syscall.EIO
		}
		return nil
	}
	for who, s := range map[string]*file.Store{"who ran": s, "a newcomer": w.open(t)} {
		_, defined := s.Define(ctx, odd)
		_, granted := s.Reserve(ctx, odd.Name, 1)
		_, raised := s.Raise(ctx, odd.Name, 900)
		_, revived := s.Revive(ctx, odd, 900)
		for _, err := range []error{defined, granted, raised, revived} {
			if !errors.Is(err, syscall.EIO) || counter.Certain(err) { // it may be read the next time
				t.Errorf("%s: %v", who, err)
			}
		}
		_, list, err := s.Changes(ctx, "")
		if err != nil || len(list) != 2 || list[0].Fault != nil || list[1].Name != odd.Name ||
			!errors.Is(list[1].Fault, syscall.EIO) {
			t.Errorf("%s: %+v, %v", who, list, err)
		}
		if _, err := s.Reserve(ctx, items.Name, 1); err != nil {
			t.Errorf("%s, of another sequence: %v", who, err)
		}
	}
	disk.Fault = nil
	if !bytes.Equal(disk.Read("orders.sequence"), before) {
		t.Error("the record was written over")
	}
	if b, err := s.Reserve(ctx, odd.Name, 1); err != nil || b.Lo != reserved.Hi+odd.Step {
		t.Errorf("when it can be read again: %+v, %v after %+v", b, err, reserved)
	}
}

// A directory that nobody has made yet is empty.
func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sequences")
	s, err := file.Open(file.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, list, err := s.Changes(ctx, ""); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	if list, err := s.List(ctx); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	if _, err := s.Reserve(ctx, "orders", 1); !errors.Is(err, counter.ErrUnknown) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking made it: %v", err)
	}
}

// A record that cannot be read is a change: it is told once, and again when it differs.
func TestUnreadableRecordsAreTold(t *testing.T) {
	w := newWorld()
	disk := &crashdisk.Disk{}
	w.disk = disk
	define(t, w.open(t))
	s := w.open(t)
	since, list, err := s.Changes(ctx, "")
	if err != nil || len(list) != 1 || list[0].Fault != nil {
		t.Fatal(list, err)
	}
	disk.Fault = func(op string) error {
		if op == "open orders.sequence" {
			return syscall.EACCES
		}
		return nil
	}
	for told := range 2 {
		since, list, err = file.Later(s, time.Minute).Changes(ctx, since)
		if err != nil || len(list) != 1-told || told == 0 && !errors.Is(list[0].Fault, syscall.EACCES) {
			t.Fatal(list, err)
		}
	}
	disk.Fault = nil
	_, list, err = file.Later(s, time.Minute).Changes(ctx, since)
	if err != nil || len(list) != 1 || list[0].Fault != nil {
		t.Error("readable again:", list, err)
	}
}
