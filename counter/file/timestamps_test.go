package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

// A daemon that starts a day after the record of timestamps was written refuses them until a raise: its clock may
// be wrong. One that runs, or that writes the record for the first time, does not.
func TestTimestampsOfAClockThatMayBeWrong(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(1_790_000_000_000)
	open := func() *Store {
		s, err := Open(Config{Dir: dir, AnyDisk: true, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var r record
	timed(&r)
	advance := func(s *Store, term string) error {
		_, err := s.Advance(t.Context(), "tx", counter.Span{From: 1 << 40, To: 1<<40 + 10, Need: 1, Term: term})
		return err
	}
	first := open()
	if _, err := first.Define(t.Context(), r.Definition); err != nil {
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	if err := advance(first, "a"); err != nil { // nothing was granted before
		t.Fatal(err)
	}
	now = now.Add(48 * time.Hour)
	if err := advance(first, "a"); err != nil { // it runs
		t.Fatal(err)
	}
	first.Close()
	now = now.Add(23 * time.Hour)
	second := open()
	if err := advance(second, "b"); err != nil {
		t.Fatal(err)
	}
	second.Close()
	now = now.Add(25 * time.Hour)
	third := open()
	defer third.Close()
	for range 2 {
		if err := advance(third, "c"); !errors.Is(err, counter.ErrForeign) || !strings.Contains(err.Error(), "25h0m0s") {
			t.Fatal(err)
		}
	}
	if _, err := third.Raise(t.Context(), "tx", 1<<41); err != nil {
		t.Fatal(err)
	}
	if err := advance(third, "c"); err != nil {
		t.Fatal(err)
	}
}

// A tsoWorld is a disk, and what was promised about the timestamps on it.
type tsoWorld struct {
	disk   *crashdisk.Disk
	tokens int
	had    uint64 // the largest position that a term had, which did not give it back
	floor  uint64 // of a Raise that returned without an error
}

var errPowerCut = errors.New("power cut")

func (w *tsoWorld) open(disk durable.Disk) (*Store, error) {
	return Open(Config{Dir: "/sequences", Disk: disk, Machine: "machine-1",
		Now: func() time.Time { return time.UnixMilli(1_790_000_000_000) },
		Token: func() string {
			w.tokens++
			return fmt.Sprint("token-", w.tokens)
		}})
}

// takes begins a term, or goes on with one. The first position of a term is above all that others had.
func (w *tsoWorld) takes(s *Store, term string, begins bool, now uint64) (counter.Block, error) {
	span := counter.Span{From: now, To: now + 300, Need: 10, Tick: 127, Term: term}
	b, err := s.Advance(context.Background(), "tx", span)
	if err == nil && (begins && b.Lo <= w.had || b.Lo < w.floor || b.Hi < now+300) {
		return b, fmt.Errorf("granted %+v to %s, after %d and with the floor %d", b, term, w.had, w.floor)
	}
	if err == nil {
		w.had = max(w.had, b.Hi)
	}
	return b, err
}

// life is one of a daemon, until the power is cut.
func (w *tsoWorld) life(d counter.Definition) error {
	s, err := w.open(w.disk)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Define(context.Background(), d); err != nil {
		return err
	}
	for i, now := range []uint64{1 << 30, 1<<30 + 200, 1<<30 - 5000} { // the clock goes back too
		term := fmt.Sprint("term-", i)
		if _, err := w.takes(s, term, true, now); err != nil {
			return err
		}
		b, err := w.takes(s, term, false, now+100)
		if err != nil {
			return err
		}
		next := b.Hi - 20
		w.had = next - 1 // whatever comes of the call
		if err := s.Return(context.Background(), "tx", b, next); err != nil {
			return err
		}
		if i == 1 {
			if _, err := s.Raise(context.Background(), "tx", 1<<30+9000); err != nil {
				return err
			}
			w.floor = 1<<30 + 9000
		}
	}
	_, err = w.takes(s, "last", true, 1<<30)
	return err
}

// The power is cut before every single operation, and every way in which the unsynced may have been lost is looked at.
func TestPowerCutsOfTimestamps(t *testing.T) {
	var r record
	timed(&r)
	cuts := 0
	for at := 0; ; at++ {
		w, n := &tsoWorld{disk: &crashdisk.Disk{}}, 0
		w.disk.Fault = func(string) error {
			if n++; n > at {
				return errPowerCut
			}
			return nil
		}
		err := w.life(r.Definition)
		if err != nil && !errors.Is(err, errPowerCut) {
			t.Fatalf("after %d operations: %v", at, err)
		}
		w.disk.Fault = nil
		disks := []*crashdisk.Disk{w.disk.Kill()}
		for seed := range uint64(10) {
			disks = append(disks, w.disk.Cut(rand.New(rand.NewPCG(seed, uint64(at)))))
		}
		for _, disk := range disks {
			after := *w
			s, open := after.open(disk)
			if open != nil {
				t.Fatal(open)
			}
			_, defined := s.Define(context.Background(), r.Definition)
			_, took := after.takes(s, "next", true, 1<<30)
			if err := errors.Join(defined, took); err != nil {
				t.Fatalf("after %d operations: %v", at, err)
			}
			s.Close()
			cuts++
		}
		if err == nil {
			break
		}
	}
	if t.Logf("%d power cuts and kills", cuts); cuts < 500 {
		t.Error("too few")
	}
}
