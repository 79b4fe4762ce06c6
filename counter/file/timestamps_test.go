package file_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

var tx = counter.Definition{Name: "tx", Start: 1, Step: 1, Offset: 1, Max: counter.MaxValue, Strict: true,
	Time: counter.Time{Layout: "katsubushi", Node: 1023, Ahead: 2500 * time.Millisecond}}

// takesTime begins a term, or goes on with one. The first position of a term is above all that others had.
func (w *world) takesTime(s *file.Store, term string, begins bool, now uint64) (counter.Block, error) {
	b, err := s.Advance(ctx, "tx", counter.Span{From: now, To: now + 300, Need: 10, Tick: 127, Term: term})
	if err == nil && (begins && b.Lo <= w.most || b.Lo < w.floor || b.Hi < now+300) {
		return b, fmt.Errorf("granted %+v to %s, after %d and with the floor %d", b, term, w.most, w.floor)
	}
	if err == nil {
		w.most = max(w.most, b.Hi)
	}
	return b, err
}

// lifeOfTime is one of a daemon that grants timestamps, until an operation fails.
func (w *world) lifeOfTime() error {
	s, err := file.Open(w.config())
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Define(ctx, tx); err != nil {
		return err
	}
	for i, now := range []uint64{1 << 30, 1<<30 + 200, 1<<30 - 5000} { // the clock goes back too
		term := fmt.Sprint("term-", i)
		if _, err := w.takesTime(s, term, true, now); err != nil {
			return err
		}
		b, err := w.takesTime(s, term, false, now+100)
		if err != nil {
			return err
		}
		next := b.Hi - 20
		w.most = next - 1 // whatever comes of the call
		if err := s.Return(ctx, "tx", b, next); err != nil {
			return err
		}
		if i == 1 {
			if _, err := s.Raise(ctx, "tx", 1<<30+9000); err != nil {
				return err
			}
			w.floor = 1<<30 + 9000
		}
	}
	_, err = w.takesTime(s, "last", true, 1<<30)
	return err
}

func TestFaultAnywhereInTimestamps(t *testing.T) {
	life := func(w *world, t *testing.T, when string) {
		err := w.lifeOfTime()
		if err != nil && !errors.Is(err, errPower) && !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s: %v", when, err)
		}
	}
	anywhere(t, life, func(w *world, t *testing.T, disk *crashdisk.Disk, when string) {
		after := *w
		after.disk = disk
		s := after.open(t)
		_, defined := s.Define(ctx, tx)
		_, took := after.takesTime(s, "next", true, 1<<30)
		if err := errors.Join(defined, took, s.Close()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}, "power cut", "an error")
}
