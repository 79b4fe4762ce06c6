package file_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
func (w *world) life(t *testing.T, when string) (done bool) {
	var s, other *file.Store
	for _, p := range []**file.Store{&s, &other} {
		var err error
		for range 6 {
			if *p, err = file.Open(w.config()); err == nil || errors.Is(err, errPower) {
				break
			}
		}
		if dead(t, err) {
			return false
		}
		if err != nil {
			return true
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
				return false
			}
			if err == nil {
				break
			}
		}
	}
	return true
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
	after.had = map[uint64]bool{}
	for v := range w.had {
		after.had[v] = true
	}
	after.disk = disk
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

// The power is cut before every single operation, and every way in which the unsynced may have been lost
// is looked at; also where the disk has no room for new files.
func TestPowerCutAnywhere(t *testing.T) {
	for _, full := range []bool{false, true} {
		cuts := 0
		for at := 0; ; at++ {
			w, n := newWorld(), 0
			when := fmt.Sprintf("power cut after %d operations, full disk %v", at, full)
			disk := &crashdisk.Disk{}
			disk.Fault = func(op string) error {
				if n++; n > at {
					return errPower
				}
				if full && w.defined && strings.HasPrefix(op, "write orders.sequence.tmp") {
					return syscall.ENOSPC
				}
				return nil
			}
			w.disk = disk
			done := w.life(t, when)
			disk.Fault = nil
			for seed := range uint64(10) {
				w.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))), fmt.Sprintf("%s, seed %d", when, seed))
				cuts++
			}
			w.next(t, disk.Kill(), "killed, no "+when)
			if done {
				break
			}
		}
		t.Logf("%d power cuts", cuts)
	}
}

// Every single operation fails once, or for a while, or from then on; the power is cut at the end.
func TestErrorAnywhere(t *testing.T) {
	for _, length := range []int{1, 3, 1000} {
		for at := 0; ; at++ {
			w, n := newWorld(), 0
			when := fmt.Sprintf("%d errors after %d operations", length, at)
			disk := &crashdisk.Disk{}
			disk.Fault = func(string) error {
				if n++; n > at && n <= at+length {
					return syscall.EIO
				}
				return nil
			}
			w.disk = disk
			w.life(t, when)
			disk.Fault = nil
			for seed := range uint64(5) {
				w.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))), fmt.Sprintf("%s, seed %d", when, seed))
			}
			w.next(t, disk.Kill(), when)
			if n <= at {
				t.Logf("%d operations", n)
				break
			}
		}
	}
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
