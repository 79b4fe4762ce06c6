package static_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

var errPower = errors.New("power cut")

// A life is what a daemon does with one worker id from start to stop, twice, and what it may have
// issued.
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
		l.use(s, g, g.Hi)
		for range 4 {
			l.pass(500)
			longer, err := extendOne(ctx, s, g)
			if err != nil {
				if l.tolerate(t, err) {
					return
				}
				continue
			}
			g = longer
			l.use(s, g, g.Hi)
		}
		used := max(l.id, g.Lo-1)
		l.use(s, g, used) // sealed: true from here on, whatever comes of the release
		if err := s.Release(ctx, g, used); err != nil && l.tolerate(t, err) {
			return
		}
		s.Close()
		l.pass(50)
	}
	l.done = true
}

// use issues ids up to a Unix ms.
func (l *life) use(s *static.Store, g workerid.Grant, last int64) {
	l.issued = last
	if word := s.Word(7, g.Lo); word != nil {
		word.Store(generator.Katsubushi().First(last + 1))
	}
}

func (l *life) tolerate(t *testing.T, err error) (dead bool) {
	if !errors.Is(err, errPower) && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	return errors.Is(err, errPower)
}

// newLife is a life. Worker ids share a mark only where words outlive a process.
func newLife(t *testing.T, share bool) *life {
	l := &life{world: newWorld(t)}
	if l.share = share; share {
		l.memory = &crashdisk.Memory{}
	}
	return l
}

// next is a daemon that starts on the disk that was left, without the word. It must find a mark, and start above it.
func (l *life) next(t *testing.T, disk *crashdisk.Disk, when string) {
	t.Helper()
	w, most := *l.world, int64(4000)
	if w.disk = disk; w.share {
		w.memory, most = &crashdisk.Memory{}, far+500
	}
	s, err := static.Open(w.config(7))
	if err != nil {
		t.Fatalf("%s: the disk cannot be used: %v", when, err)
	}
	defer s.Close()
	g, err := s.Acquire(ctx, one)
	if err != nil || g.Lo <= l.issued {
		t.Fatalf("%s: granted %+v, %v; ids may go to %d", when, g, err, l.issued)
	}
	if g.Lo > max(w.id, l.issued)+most {
		t.Fatalf("%s: granted %+v at %d; ids only went to %d", when, g, w.id, l.issued)
	}
}

// The power is cut before every single operation, and every way in which the unsynced may have been
// lost is looked at.
func TestPowerCutAnywhere(t *testing.T) { shareOrNot(t, powerCutAnywhere) }

func powerCutAnywhere(t *testing.T, share bool) {
	cuts := 0
	for at := 0; ; at++ {
		l, n := newLife(t, share), 0
		disk := &crashdisk.Disk{Fault: func(string) error {
			if n++; n > at {
				return errPower
			}
			return nil
		}}
		l.disk = disk
		l.run(t)
		for seed := range uint64(60) {
			l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))),
				fmt.Sprintf("power cut after %d operations, seed %d", at, seed))
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

// Every single operation fails once, or from then on for a while; the daemon goes on, and the power
// is cut at the end.
func TestErrorAnywhere(t *testing.T) { shareOrNot(t, errorAnywhere) }

func errorAnywhere(t *testing.T, share bool) {
	for _, length := range []int{1, 3, 1000} {
		for at := 0; ; at++ {
			l, n := newLife(t, share), 0
			disk := &crashdisk.Disk{Fault: func(string) error {
				if n++; n > at && n <= at+length {
					return syscall.EIO
				}
				return nil
			}}
			l.disk = disk
			l.run(t)
			for seed := range uint64(25) {
				l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))),
					fmt.Sprintf("%d errors after %d operations, seed %d", length, at, seed))
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
func TestManyLives(t *testing.T) { shareOrNot(t, manyLives) }

func manyLives(t *testing.T, share bool) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		l, disk := newLife(t, share), &crashdisk.Disk{}
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
			killed := rnd.IntN(3) == 0
			if killed {
				disk = disk.Kill()
			} else {
				disk = disk.Cut(rnd)
			}
			if share && !(killed && rnd.IntN(2) == 0) {
				l.memory = &crashdisk.Memory{}
			}
			l.pass(rnd.Int64N(3000) - 1000)
			l.clocks.Boot += 1000
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
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

// TestPowerCutOnAFullDisk: the power is cut before every operation of a start on a full disk, and that fails once at
// every operation: what there was is overwritten.
func TestPowerCutOnAFullDisk(t *testing.T) {
	for _, trouble := range []error{errPower, syscall.EIO} {
		for at, n := 0, 1; n > at; at++ {
			l := &life{world: newWorld(t)}
			disk := &crashdisk.Disk{}
			l.disk = disk
			s, err := static.Open(l.config(7))
			if err != nil {
				t.Fatal(err)
			}
			l.issued = mustAcquire(t, s, one).Hi
			s.Close()
			n = 0
			disk.Fault = func(op string) error {
				if n++; n > at && (trouble == errPower || n == at+1) {
					return trouble
				}
				if strings.HasPrefix(op, "write worker-7.state.") {
					return syscall.ENOSPC
				}
				return nil
			}
			if s, err = static.Open(l.config(7)); err == nil {
				for range 2 { // when it is tried again, the copies may be of two attempts
					if g, err := s.Acquire(ctx, one); err == nil {
						l.issued = max(l.issued, g.Hi)
						break
					}
				}
			}
			disk.Fault = nil
			for seed := range uint64(100) {
				l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))),
					fmt.Sprintf("%v after %d operations, seed %d", trouble, at, seed))
			}
			l.next(t, disk.Kill(), fmt.Sprintf("%v after %d operations", trouble, at))
		}
	}
}

// A new file was put in place, and its name may not be durable: by a process that got an error, or
// was killed. The next one, for whose file there is no room, must not write into a file that a
// power cut takes away.
func TestFullDiskAfterAnUnsyncedRename(t *testing.T) {
	for _, killed := range []bool{false, true} {
		l, disk := &life{world: newWorld(t)}, &crashdisk.Disk{}
		l.disk = disk
		s := l.open(t, 7)
		l.issued = mustAcquire(t, s, one).Hi
		s.Close()
		s = l.open(t, 7)
		disk.Fault = func(op string) error {
			if op == "syncdir" {
				return syscall.EIO
			}
			return nil
		}
		if g, err := s.Acquire(ctx, one); !errors.Is(err, syscall.EIO) {
			t.Fatalf("%+v, %v", g, err)
		}
		if killed {
			disk = disk.Kill()
			l.disk = disk
			s = l.open(t, 7)
		}
		disk.Fault = func(op string) error {
			if strings.HasPrefix(op, "write worker-7.state.") {
				return syscall.ENOSPC
			}
			return nil
		}
		l.pass(100)
		l.issued = mustAcquire(t, s, one).Hi
		disk.Fault = nil
		for seed := range uint64(20) {
			l.next(t, disk.Cut(rand.New(rand.NewPCG(seed, 0))), fmt.Sprintf("killed %v, seed %d", killed, seed))
		}
	}
}

var _ workerid.Store = (*daemon)(nil)
