package static_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A fleet is a process with the worker ids 1 to n that share a mark.
type fleet struct {
	*world
	disk   *crashdisk.Disk
	memory *crashdisk.Memory
	store  *static.Store
	held   []workerid.Grant
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	w, disk, memory := remembering(t)
	w.share = true
	f := &fleet{world: w, disk: disk, memory: memory}
	f.start(t, n)
	return f
}

// start begins the next process. The one before has been killed.
func (f *fleet) start(t *testing.T, n int) {
	t.Helper()
	fault := f.disk.Fault
	f.disk = f.disk.Kill()
	f.disk.Fault = fault
	f.world.disk, f.world.memory, f.held = f.disk, f.memory, nil
	var ids []uint64
	for id := range n {
		ids = append(ids, uint64(id)+1)
	}
	f.store = f.open(t, ids...)
	for _, id := range ids {
		f.held = append(f.held, mustAcquire(t, f.store, workerid.Request{Owner: "me", Min: id, Max: id}))
	}
}

// powerCut ends the process and the boot.
func (f *fleet) powerCut() {
	f.disk, f.memory = f.disk.Cut(rand.New(rand.NewPCG(1, 2))), &crashdisk.Memory{}
	f.clocks.BootID += "+"
}

// nextStart is a start after a power cut, and no worker id waits for longer than for a mark of its own.
func (f *fleet) nextStart(t *testing.T) {
	t.Helper()
	n := len(f.held)
	f.powerCut()
	f.start(t, n)
	for _, g := range f.held {
		if g.Lo > f.id+far+1 {
			t.Errorf("%+v waits for %d ms", g, g.Lo-f.id)
		}
	}
}

// beat lets half a second pass, and windows go on.
func (f *fleet) beat(t *testing.T) {
	t.Helper()
	f.pass(500)
	results, err := f.store.Extend(ctx, f.held)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		f.held[i].Hi = max(f.held[i].Hi, r.Grant.Hi)
	}
}

// shared returns the names of the files of shared marks.
func (f *fleet) shared(t *testing.T) (names []string) {
	t.Helper()
	all, err := f.disk.Names("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, "shared-") {
			names = append(names, name)
		}
	}
	return names
}

func synced(trace []string) (n int) {
	for _, op := range trace {
		if strings.HasPrefix(op, "datasync") {
			n++
		}
	}
	return n
}

// TestOneWriteForAll: 64 windows go on for ten minutes with less than two syncs a second, and no window ends earlier
// than alone.
func TestOneWriteForAll(t *testing.T) {
	f := newFleet(t, 64)
	for f.held[0].Hi < f.id+near {
		f.beat(t)
	}
	begun, before := f.id, len(f.disk.Trace)
	for f.id < begun+600_000 {
		f.beat(t)
		for _, g := range f.held {
			if g.Hi != f.id+near {
				t.Fatalf("%+v at %d", g, f.id)
			}
		}
	}
	if n := synced(f.disk.Trace[before:]); n > 2*600 || n < 600/2 {
		t.Errorf("%d syncs in 600 s", n)
	}
}

// TestStartByASharedMark: a process that begins after a power cut waits no longer than with a mark of its own, unless
// the shared one is lost; and it starts above every id.
func TestStartByASharedMark(t *testing.T) {
	for what, c := range map[string]struct {
		least, most int64 // that it starts above the clock, ms
		change      func(t *testing.T, f *fleet)
	}{
		"as it was":                     {1000, far + 1, func(*testing.T, *fleet) {}},
		"the shared mark is gone":       {far + 30_000, far + 150_000, gone},
		"it is another series's":        {far + 30_000, far + 150_000, another},
		"one copy is damaged":           {1000, far + 1, damaged(100)},
		"both are":                      {far + 30_000, far + 150_000, damaged(100, 5000)},
		"one lane alone is started":     {1000, far + 1, func(t *testing.T, f *fleet) { f.share = false }},
		"a start before was cut off":    {1000, far + 1, cutOff},
		"an hour has passed since then": {near + 1, near + 1, func(t *testing.T, f *fleet) { f.pass(3600_000) }},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleet(t, 3)
			for range 150 {
				f.beat(t)
			}
			last := f.held[2].Hi
			f.powerCut()
			c.change(t, f)
			f.start(t, 3)
			for _, g := range f.held {
				if from := g.Lo - f.id; g.Lo <= last || from < c.least || from > c.most {
					t.Errorf("%+v, %d ms after the clock; ids went to %d", g, from, last)
				}
			}
		})
	}
}

func gone(t *testing.T, f *fleet) {
	if err := f.disk.Remove(f.shared(t)[0]); err != nil {
		t.Fatal(err)
	}
}

// another puts the shared mark of another process in place.
func another(t *testing.T, f *fleet) {
	g := newFleet(t, 1)
	f.disk.Write(f.shared(t)[0], g.disk.Read(g.shared(t)[0]))
}

// damaged changes bytes of the shared mark.
func damaged(at ...int) func(*testing.T, *fleet) {
	return func(t *testing.T, f *fleet) {
		name := f.shared(t)[0]
		b := f.disk.Read(name)
		for _, i := range at {
			b[i] ^= 1
		}
		f.disk.Write(name, b)
	}
}

// cutOff is a start that ends between the records of two worker ids.
func cutOff(t *testing.T, f *fleet) {
	f.start(t, 1)
	f.powerCut()
}

// TestNoSharedMarkWithoutWords: where a restart has to wait for marks, all are short, and nothing is shared.
func TestNoSharedMarkWithoutWords(t *testing.T) {
	w := newWorld(t)
	w.share = true
	f := &fleet{world: w, disk: &crashdisk.Disk{}}
	w.disk = f.disk
	s := f.open(t, 1, 2)
	g := mustAcquire(t, s, workerid.Request{Min: 1, Max: 2})
	w.pass(500)
	if g, err := extendOne(s, g); err != nil || len(f.shared(t)) > 0 {
		t.Errorf("%+v, %v, %q", g, err, f.shared(t))
	}
}

// TestClockAheadBesideASharedMark: the shared mark does not follow a clock that is far ahead for a moment.
func TestClockAheadBesideASharedMark(t *testing.T) {
	f := newFleet(t, 2)
	for range 10 {
		f.beat(t)
	}
	const step = 100_000 // less than the marks of the worker ids are ahead
	f.id += step
	f.clocks.Wall += step
	for range 2 { // the first time, windows end at the mark
		f.pass(500)
		r, err := f.store.Extend(ctx, f.held)
		if err != nil || r[0].Err != nil && !errors.Is(r[0].Err, workerid.ErrSkew) {
			t.Errorf("%+v, %v", r, err)
		}
		f.held[0].Hi = max(f.held[0].Hi, r[0].Grant.Hi)
	}
	f.id -= step
	f.clocks.Wall -= step
	f.nextStart(t)
}

// TestSharedMarkIsNotBelow: a worker id whose record says that ids may go further than the shared mark does not go by
// that. Its next run would start too low.
func TestSharedMarkIsNotBelow(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(3600_000)
	f.start(t, 1)
	f.beat(t)
	last := f.held[0].Hi
	f.pass(-3600_000)
	f.powerCut()
	f.start(t, 2)
	if f.held[0].Lo <= last {
		t.Fatalf("%+v after %d", f.held[0], last)
	}
	f.beat(t)
	f.powerCut()
	f.start(t, 2)
	if f.held[0].Lo <= last {
		t.Errorf("%+v after %d: the shared mark is another clock's", f.held[0], last)
	}
	if first := f.held[1].Lo - f.id; first > far+1 {
		t.Errorf("the other one waits for %d ms", first)
	}
}

// TestSlowRecordBesideASharedMark: while a worker id is recorded, the present passes the shared mark. The window ends
// there, since the next run knows of no more.
func TestSlowRecordBesideASharedMark(t *testing.T) {
	f := newFleet(t, 1)
	f.pass(60_000)
	f.disk.Fault = func(op string) error {
		if strings.HasPrefix(op, "rename worker-1.state.tmp") {
			f.pass(far)
		}
		return nil
	}
	f.start(t, 1)
	last := f.held[0].Hi
	f.disk.Fault = nil
	f.powerCut()
	f.pass(-far)
	f.start(t, 1)
	if f.held[0].Lo <= last {
		t.Errorf("%+v after %d", f.held[0], last)
	}
}

// TestStoppedBesideAnOlderSharedMark: what a clean stop has recorded is exact, and no shared mark is.
func TestStoppedBesideAnOlderSharedMark(t *testing.T) {
	f := newFleet(t, 1)
	name := f.shared(t)[0]
	older := f.disk.Read(name)
	for range 200 {
		f.beat(t)
	}
	if err := f.store.Release(ctx, f.held[0], f.id); err != nil {
		t.Fatal(err)
	}
	last := f.id
	f.disk.Write(name, older)
	f.powerCut()
	f.start(t, 1)
	if f.held[0].Lo != last+1 {
		t.Errorf("%+v after %d", f.held[0], last)
	}
}

// TestSharedMarkDeleted: under a running daemon. It is made anew, and windows go on.
func TestSharedMarkDeleted(t *testing.T) {
	f := newFleet(t, 2)
	name := f.shared(t)[0]
	if err := f.disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		f.beat(t)
	}
	if f.held[1].Hi != f.id+near || f.disk.Read(name) == nil {
		t.Errorf("%+v at %d", f.held, f.id)
	}
}

// TestNoRoomForASharedMark: then every worker id has its own, and is started.
func TestNoRoomForASharedMark(t *testing.T) {
	w, disk, memory := remembering(t)
	w.share = true
	f := &fleet{world: w, disk: disk, memory: memory}
	disk.Fault = func(op string) error {
		if strings.HasPrefix(op, "write shared-") {
			return syscall.ENOSPC
		}
		return nil
	}
	f.start(t, 2)
	for range 100 {
		f.beat(t)
	}
	if f.held[1].Hi != f.id+near {
		t.Errorf("%+v at %d", f.held, f.id)
	}
	f.nextStart(t)
}

// TestSharedMarksOfOthersAreRemoved: of processes that are gone, once they make no difference, and no others.
func TestSharedMarksOfOthersAreRemoved(t *testing.T) {
	f := newFleet(t, 2)
	for n, pause := range []int64{100_000, 70_000, 50_000, 1_000_000} {
		f.pass(pause)
		f.start(t, 2)
		if got, want := len(f.shared(t)), []int{2, 3, 3, 1}[n]; got != want {
			t.Errorf("%d files after %d starts more: %q", got, n+1, f.shared(t))
		}
	}
}

// TestOperatorsSeeTheSharedMark: a state file's mark is the lower one, and after Adopt and Reset it is exact.
func TestOperatorsSeeTheSharedMark(t *testing.T) {
	f := newFleet(t, 1)
	for range 100 {
		f.beat(t)
	}
	f.store.Close()
	dir := t.TempDir()
	for _, name := range []string{"worker-1.state", "worker-1.lock", f.shared(t)[0]} {
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

// TestLaneLostBesideASharedMark: a worker id that is lost and held again has a new run of the same series.
func TestLaneLostBesideASharedMark(t *testing.T) {
	f := newFleet(t, 2)
	for range 4 {
		f.beat(t)
	}
	state := f.disk.Read("worker-1.state")
	f.disk.Remove("worker-1.lock")
	f.disk.Remove("worker-1.state")
	f.pass(500)
	if r, err := f.store.Extend(ctx, f.held[:1]); err != nil || r[0].Err == nil {
		t.Fatal(r, err)
	}
	had := f.held[0].Hi
	f.held[0] = mustAcquire(t, f.store, workerid.Request{Owner: "me", Min: 1, Max: 1})
	if f.held[0].Lo <= had {
		t.Errorf("%+v after %d", f.held[0], had)
	}
	nonce := func(b []byte) string {
		_, rest, _ := strings.Cut(string(b), "\nboot ")
		return strings.Split(rest, ";")[1]
	}
	before, after := nonce(state), nonce(f.disk.Read("worker-1.state"))
	series := strings.TrimSuffix(strings.TrimPrefix(f.shared(t)[0], "shared-"), ".mark")
	if before == after || !strings.HasPrefix(before, series+".") || !strings.HasPrefix(after, series+".") {
		t.Errorf("runs %s and %s of the series %s", before, after, series)
	}
}
