package file_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

var (
	ctx      = context.Background()
	errPower = errors.New("power cut")
	odd      = counter.Definition{Name: "orders", Start: 100, Step: 2, Offset: 1, Max: 1_000_000}
)

// A world is a disk and what was promised about the values that are on it.
type world struct {
	disk    durable.Disk
	machine string
	tokens  int

	had     map[uint64]bool // values that somebody has
	defined bool            // Define has returned without an error
	floor   uint64          // of a Raise that returned without an error
	most    uint64          // of timestamps: the largest position that a term had, which did not give it back
}

func newWorld() *world {
	return &world{disk: &crashdisk.Disk{}, machine: "machine-1", had: map[uint64]bool{}}
}

func (w *world) config() file.Config {
	return file.Config{Dir: "/sequences", Disk: w.disk, Machine: w.machine, Token: func() string {
		w.tokens++
		return fmt.Sprint("token-", w.tokens)
	}}
}

func (w *world) open(t *testing.T) *file.Store {
	t.Helper()
	s, err := file.Open(w.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// grant notes a block. None of its values may be anybody's, nor below the floor.
func (w *world) grant(t *testing.T, when string, b counter.Block) {
	t.Helper()
	if b.Lo < w.floor {
		t.Fatalf("%s: granted %+v below the floor %d", when, b, w.floor)
	}
	for v := b.Lo; v <= b.Hi; v += odd.Step {
		if w.had[v] || v%odd.Step != odd.Offset || v < odd.Start {
			t.Fatalf("%s: granted %d of %+v, which is somebody's or no value", when, v, b)
		}
		w.had[v] = true
	}
}

// A life is what a daemon does with a sequence, and an operator and another daemon beside it. It goes on
// until an operation fails with errPower, and tolerates other errors.
func (w *world) life(t *testing.T, when string) {
	var s, other *file.Store
	for _, p := range []**file.Store{&s, &other} {
		var err error
		for range 6 {
			if *p, err = file.Open(w.config()); err == nil || errors.Is(err, errPower) {
				break
			}
		}
		if dead(t, err) || err != nil {
			return
		}
		defer (*p).Close()
	}
	for _, step := range []func() error{
		func() error {
			r, err := s.Define(ctx, odd)
			if err == nil && !r.Definition.Same(odd) {
				t.Fatalf("%s: defined %+v", when, r)
			}
			w.defined = w.defined || err == nil
			return err
		},
		func() error { return w.takes(t, when, s, 3) },
		func() error { return w.takes(t, when, s, 2) },
		func() error { return w.takes(t, when, other, 2) },
		func() error { return w.takes(t, when, s, 1) },
		func() error { return w.raise(s, odd.Start+50) },
		func() error { return w.takes(t, when, other, 3) },
		func() error { return w.givesBack(t, when, s) },
		func() error { return w.takes(t, when, s, 1) },
	} {
		for range 2 {
			err := step()
			if dead(t, err) {
				return
			}
			if err == nil {
				break
			}
		}
	}
}

func dead(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, errPower) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) &&
		!errors.Is(err, counter.ErrUnknown) && !errors.Is(err, counter.ErrStale) {
		t.Fatal(err)
	}
	return errors.Is(err, errPower)
}

func (w *world) takes(t *testing.T, when string, s *file.Store, n uint64) error {
	t.Helper()
	b, err := s.Reserve(ctx, odd.Name, n)
	if err == nil {
		w.grant(t, when, b)
	}
	return err
}

// raise notes the floor only if it is certain.
func (w *world) raise(s *file.Store, atLeast uint64) error {
	_, err := s.Raise(ctx, odd.Name, atLeast)
	if err == nil {
		w.floor = max(w.floor, atLeast)
	}
	return err
}

// givesBack takes a block of four and gives its last two values back.
func (w *world) givesBack(t *testing.T, when string, s *file.Store) error {
	t.Helper()
	b, err := s.Reserve(ctx, odd.Name, 4)
	if err != nil {
		return err
	}
	w.grant(t, when, b)
	if b.Hi-b.Lo != 6 {
		t.Fatalf("%s: granted %+v, not four", when, b)
	}
	next := b.Lo + 4 // from here on they are nobody's, whatever comes of the call
	delete(w.had, next)
	delete(w.had, next+2)
	return s.Return(ctx, odd.Name, b, next)
}

// next is a daemon that starts on the disk that was left.
func (w *world) next(t *testing.T, disk *crashdisk.Disk, when string) {
	t.Helper()
	after := *w
	after.had, after.disk = maps.Clone(w.had), disk
	s, err := file.Open(after.config())
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer s.Close()
	r, err := s.Define(ctx, odd)
	if err != nil || r.Floor < after.floor {
		t.Fatalf("%s: the record is %+v, %v", when, r, err)
	}
	for range 2 {
		if err := after.takes(t, when, s, 30); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
}

// faults are what may go wrong from the operation with the number at on, of which n is one.
var faults = map[string]func(w *world, op string, n, at int) error{
	"power cut": func(_ *world, _ string, n, at int) error {
		if n > at {
			return errPower
		}
		return nil
	},
	"power cut, full disk": func(w *world, op string, n, at int) error {
		switch {
		case n > at:
			return errPower
		case w.defined && strings.HasPrefix(op, "write orders.sequence.tmp"):
			return syscall.ENOSPC
		}
		return nil
	},
	"an error": errorsOf(1), "3 errors": errorsOf(3), "errors from then on": errorsOf(1000),
}

func errorsOf(length int) func(w *world, op string, n, at int) error {
	return func(_ *world, _ string, n, at int) error {
		if n > at && n <= at+length {
			return syscall.EIO
		}
		return nil
	}
}

// anywhere lets each fault begin at every single operation of a life, and looks then at every way in which the unsynced
// may have been lost.
func anywhere(t *testing.T, life func(*world, *testing.T, string),
	next func(*world, *testing.T, *crashdisk.Disk, string), kinds ...string) {
	for _, what := range kinds {
		fault, disks := faults[what], 0
		for at, over := 0, false; !over; at++ {
			w, n, disk := newWorld(), 0, &crashdisk.Disk{}
			when := fmt.Sprintf("%s after %d operations", what, at)
			disk.Fault = func(op string) error {
				n++
				return fault(w, op, n, at)
			}
			w.disk = disk
			life(w, t, when)
			over, disk.Fault = n <= at, nil
			for seed := range uint64(7) {
				next(w, t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))), fmt.Sprintf("%s, seed %d", when, seed))
			}
			next(w, t, disk.Kill(), "killed, no "+when)
			disks += 8
		}
		if t.Logf("%s: %d disks", what, disks); disks < 500 {
			t.Error("too few")
		}
	}
}

func TestFaultAnywhere(t *testing.T) {
	anywhere(t, (*world).life, (*world).next, slices.Collect(maps.Keys(faults))...)
}

// Errors, full disks and power cuts at random, life after life on the same disk.
func TestManyLives(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		w, disk := newWorld(), &crashdisk.Disk{}
		for range 12 {
			left, full := 5+rnd.IntN(250), rnd.IntN(4) == 0
			disk.Fault = func(op string) error {
				if left--; left < 0 {
					return errPower
				}
				if full && strings.Contains(op, ".tmp") {
					return syscall.ENOSPC
				}
				if rnd.IntN(15) == 0 {
					return syscall.EIO
				}
				return nil
			}
			w.disk = disk
			w.life(t, fmt.Sprint("seed ", seed))
			if rnd.IntN(3) == 0 {
				disk = disk.Kill()
			} else {
				disk = disk.Cut(rnd)
			}
			disk.Fault = nil
			w.next(t, disk.Cut(rnd), fmt.Sprint("seed ", seed))
		}
	}
}
