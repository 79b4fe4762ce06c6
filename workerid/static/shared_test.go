package static_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A fleet has processes with the worker ids 1 to n that share a mark, one after another.
type fleet struct {
	*world
	t      *testing.T
	disk   *crashdisk.Disk
	memory *crashdisk.Memory
	store  *static.Store
	held   []workerid.Grant
	last   map[uint64]int64 // by worker id: up to where a lost word may have come, Unix ms
	kept   []byte           // a shared mark
	run    string           // that worker id 1 was recorded by
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, last: map[uint64]int64{}}
	f.world, f.disk, f.memory = remembering(t)
	f.share = true
	return f
}

// start begins the next process, and says from when its windows are, once for those that are alike. The one before has
// been killed.
func (f *fleet) start(n uint64) (string, error) {
	fault := f.disk.Fault
	f.disk = f.disk.Kill()
	f.disk.Fault = fault
	f.world.disk, f.held = f.disk, make([]workerid.Grant, n)
	if f.world.memory != nil {
		f.world.memory = f.memory
	}
	var ids []uint64
	for id := range n {
		ids = append(ids, id+1)
	}
	f.store = f.open(f.t, ids...)
	var said []string
	for _, id := range ids {
		from, err := f.acquire(id)
		if said = append(said, from); err != nil {
			return "", err
		}
	}
	return strings.Join(slices.Compact(said), " "), nil
}

func (f *fleet) acquire(id uint64) (string, error) {
	g, err := f.store.Acquire(ctx, workerid.Request{Owner: "me", Min: id, Max: id})
	if err == nil && g.Lo <= f.last[id] {
		f.t.Errorf("%+v after %d", g, f.last[id])
	}
	f.held[id-1] = g
	return fmt.Sprint(g.Lo - f.id), err
}

// forget loses all words.
func (f *fleet) forget() {
	f.memory = &crashdisk.Memory{}
	for _, g := range f.held {
		f.last[g.Worker] = max(f.last[g.Worker], g.Hi)
	}
}

// beats lets half a second pass so often, and windows go on. It says where they end, and how many syncs that took.
func (f *fleet) beats(n int) (string, error) {
	ends, before := map[int64]bool{}, len(f.disk.Trace)
	for range n {
		f.pass(500)
		results, err := f.store.Extend(ctx, f.held)
		for i, r := range results {
			g := &f.held[i]
			g.Hi = max(g.Hi, r.Grant.Hi)
			ends[g.Hi-f.id] = true
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			return "", f.told(err)
		}
	}
	syncs := slices.DeleteFunc(slices.Clone(f.disk.Trace[before:]), func(op string) bool {
		return !strings.HasPrefix(op, "datasync")
	})
	return fmt.Sprintf("to %d, %d syncs", slices.Sorted(maps.Keys(ends)), len(syncs)), nil
}

// shared returns the names of the files of shared marks.
func (f *fleet) shared() []string {
	all, err := f.disk.Names("")
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, "shared-") })
}

// recorded says what is news of the run in the record of worker id 1.
func (f *fleet) recorded() string {
	_, rest, _ := strings.Cut(string(f.disk.Read("worker-1.state")), "\nboot ")
	run, before := strings.Split(rest, ";")[1], f.run
	f.run = run
	series := strings.TrimSuffix(strings.TrimPrefix(f.shared()[0], "shared-"), ".mark")
	return fmt.Sprintf("of the series: %v, another run: %v", strings.HasPrefix(run, series+"."), run != before)
}

// TestSharedMarks: times are ms from now.
func TestSharedMarks(t *testing.T) {
	steps.Run(t, "testdata/shared.txt", func(t *testing.T) steps.Calls {
		f := newFleet(t)
		shared := func(change func(b []byte)) {
			b := f.disk.Read(f.shared()[0])
			change(b)
			f.disk.Write(f.shared()[0], b)
		}
		return steps.Calls{
			"no-memory": func() { f.world.memory = nil },
			"alone":     func() { f.share = false },
			"start":     f.start,
			"acquire": func(id uint64) (string, error) { // that was lost
				f.forget()
				return f.acquire(id)
			},
			"beats": f.beats,
			"pass":  f.pass,
			"set-clock": func(ms int64) {
				f.id += ms
				f.clocks.Wall += ms
			},
			// power ends the process and the boot
			"power": func() {
				f.forget()
				f.disk = f.disk.Cut(rand.New(rand.NewPCG(1, 2)))
				f.clocks.BootID += "+"
			},
			"release": func(last int64) error {
				defer func() { f.held[0].Hi = f.id + last }()
				return f.store.Release(ctx, f.held[0], f.id+last)
			},
			"fail": func(prefix string) {
				f.disk.Fault = func(op string) error {
					if strings.HasPrefix(op, prefix) {
						return syscall.ENOSPC
					}
					return nil
				}
			},
			"take": func(prefix string, ms int64) {
				f.disk.Fault = func(op string) error {
					if strings.HasPrefix(op, prefix) {
						f.pass(ms)
					}
					return nil
				}
			},
			"work":     func() { f.disk.Fault = nil },
			"remove":   func(name string) error { return f.disk.Remove(name) },
			"marks":    func() int { return len(f.shared()) },
			"no-mark":  func() error { return f.disk.Remove(f.shared()[0]) },
			"keep":     func() { f.kept = f.disk.Read(f.shared()[0]) },
			"put-back": func() { shared(func(b []byte) { copy(b, f.kept) }) },
			"damage":   func(at int) { shared(func(b []byte) { b[at] ^= 1 }) },
			"another": func() error { // process's mark
				other := newFleet(t)
				_, err := other.start(1)
				shared(func(b []byte) { copy(b, other.disk.Read(other.shared()[0])) })
				return err
			},
			"recorded": f.recorded,
		}
	})
}

// TestOperatorsSeeTheSharedMark: a state file's mark is the lower one, and after Adopt and Reset it is exact.
func TestOperatorsSeeTheSharedMark(t *testing.T) {
	f := newFleet(t)
	_, failed := f.start(1)
	_, err := f.beats(100)
	if err = errors.Join(failed, err, f.store.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"worker-1.state", "worker-1.lock", f.shared()[0]} {
		if err := os.WriteFile(filepath.Join(dir, name), f.disk.Read(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if m := inspectOne(t, dir).HighWater.UnixMilli(); m < f.held[0].Hi || m > f.id+far {
		t.Errorf("it says %d, at %d", m, f.id)
	}
	if _, err := static.Reset(dir, 1, f.id+far, fingerprint, false); err != nil {
		t.Error(err)
	}
	if m := inspectOne(t, dir).HighWater.UnixMilli(); m != f.id+far {
		t.Errorf("after a reset it says %d, not %d", m, f.id+far)
	}
	if info, err := static.Adopt(dir, 1, f.id+1000); err != nil || info.HighWater.UnixMilli() != f.id+far {
		t.Errorf("%+v, %v", info, err)
	}
}
