package static_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/workerid"
	"github.com/katsubushi/katsubushi/workerid/static"
	"github.com/katsubushi/katsubushi/workerid/static/crashdisk"
)

var errPower = errors.New("power cut")

// A life is what a daemon does with one worker id from start to stop, twice, and what it may have issued.
type life struct {
	*world
	issued int64 // Unix ms: no id was issued above it
	done   bool
}

// run goes on until an operation fails with errPower. It tolerates other errors, as the Machine does.
func (l *life) run(t *testing.T) {
	for range 2 {
		s, err := static.Open(l.config(7))
		if err != nil {
			l.tolerate(t, err)
			return
		}
		defer s.Close()
		g, err := s.Acquire(ctx, one)
		for i := 0; err != nil; i++ {
			if l.tolerate(t, err) || i > 20 {
				return
			}
			l.pass(100)
			g, err = s.Acquire(ctx, one)
		}
		if g.Lo <= l.issued {
			t.Fatalf("granted %+v, but ids may go to %d", g, l.issued)
		}
		l.issued = g.Hi
		for range 4 {
			l.pass(500)
			longer, err := extendOne(s, g)
			if err != nil {
				if l.tolerate(t, err) {
					return
				}
				continue
			}
			g = longer
			l.issued = g.Hi
		}
		used := max(l.id, g.Lo-1)
		l.issued = used // sealed: true from here on, whatever comes of the release
		if err := s.Release(ctx, g, used); err != nil && l.tolerate(t, err) {
			return
		}
		s.Close()
		l.pass(50)
	}
	l.done = true
}

func (l *life) tolerate(t *testing.T, err error) (dead bool) {
	if !errors.Is(err, errPower) && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	return errors.Is(err, errPower)
}

// next is a daemon that starts on the disk that was left. It must find a mark, and start above it.
func (l *life) next(t *testing.T, disk *crashdisk.Disk, when string) {
	t.Helper()
	w := *l.world
	w.disk = disk
	s, err := static.Open(w.config(7))
	if err != nil {
		t.Fatalf("%s: the disk cannot be used: %v", when, err)
	}
	defer s.Close()
	g, err := s.Acquire(ctx, one)
	if err != nil || g.Lo <= l.issued {
		t.Fatalf("%s: granted %+v, %v; ids may go to %d", when, g, err, l.issued)
	}
	if g.Lo > max(w.id, l.issued)+4000 {
		t.Fatalf("%s: granted %+v at %d; ids only went to %d", when, g, w.id, l.issued)
	}
}

// The power is cut before every single operation, and every way in which the unsynced may have been lost is looked at.
func TestPowerCutAnywhere(t *testing.T) {
	cuts := 0
	for at := 0; ; at++ {
		l, n := &life{world: newWorld(t)}, 0
		disk := &crashdisk.Disk{Fault: func(string) error {
			if n++; n > at {
				return errPower
			}
			return nil
		}}
		l.disk = disk
		l.run(t)
		for seed := range uint64(60) {
			l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))), fmt.Sprintf("power cut after %d operations, seed %d", at, seed))
			cuts++
		}
		l.next(t, disk.Kill(), fmt.Sprintf("killed after %d operations", at))
		if l.done {
			break
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d power cuts", cuts)
}

// Every single operation fails once, or from then on for a while; the daemon goes on, and the power is cut at the end.
func TestErrorAnywhere(t *testing.T) {
	for _, length := range []int{1, 3, 1000} {
		for at := 0; ; at++ {
			l, n := &life{world: newWorld(t)}, 0
			disk := &crashdisk.Disk{Fault: func(string) error {
				if n++; n > at && n <= at+length {
					return syscall.EIO
				}
				return nil
			}}
			l.disk = disk
			l.run(t)
			for seed := range uint64(25) {
				l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))), fmt.Sprintf("%d errors after %d operations, seed %d", length, at, seed))
			}
			l.next(t, disk.Kill(), fmt.Sprintf("%d errors after %d operations", length, at))
			if n <= at {
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Errors and power cuts at random, life after life on the same disk.
func TestManyLives(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		l, disk := &life{world: newWorld(t)}, &crashdisk.Disk{}
		for range 20 {
			left := 5 + rnd.IntN(80)
			disk.Fault = func(string) error {
				if left--; left < 0 {
					return errPower
				}
				if rnd.IntN(15) == 0 {
					return syscall.EIO
				}
				return nil
			}
			l.disk, l.done = disk, false
			l.run(t)
			if rnd.IntN(3) == 0 {
				disk = disk.Kill()
			} else {
				disk = disk.Cut(rnd)
			}
			l.pass(rnd.Int64N(3000) - 1000)
			l.clocks.Boot += 1000
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// A disk that is really full.
func TestFullDisk(t *testing.T) {
	dir := mountSmall(t)
	w := newWorld(t)
	w.dir = dir
	c := w.config(7)
	if _, err := static.Open(c); !errors.Is(err, static.ErrFileSystem) {
		t.Errorf("tmpfs was accepted: %v", err)
	}
	c.AnyDisk = true
	open := func() *static.Store {
		s, err := static.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	fill(t, dir)
	if _, err := s.Acquire(ctx, one); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the first file of all, on a full disk: %v", err)
	}
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
	g, err := s.Acquire(ctx, one)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	fill(t, dir)
	w.pass(500)
	if g, err = extendOne(s, g); err != nil {
		t.Fatalf("an update needs no room: %v", err)
	}
	s.Close()
	s = open()
	if got, err := s.Acquire(ctx, one); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a start on a full disk: %+v, %v", got, err)
	}
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
	next, err := s.Acquire(ctx, one)
	if err != nil || next.Lo != g.Hi+1 {
		t.Errorf("%+v, %v after %+v", next, err, g)
	}
}

// fill leaves no room on a small file system.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(dir + "/filler")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func inspectOne(t *testing.T, dir string) static.Info {
	t.Helper()
	infos, err := static.Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	return infos[0]
}

var _ workerid.Store = (*daemon)(nil)
