package file_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
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

// A stopping disk is that of a process that is stopped before one of its operations while something else happens.
type stopping struct {
	crashdisk.Watched
	count, at int    // of the operations since at was set; the one before which it is stopped
	meanwhile func() // what happens then
}

func newStopping(disk durable.Disk) *stopping {
	s := &stopping{}
	s.Watched = crashdisk.Watched{Disk: disk, Before: func(string) error {
		if s.count++; s.count == s.at && s.at > 0 {
			s.meanwhile()
		}
		return nil
	}}
	return s
}

// A process is stopped anywhere in a reservation. Meanwhile somebody deletes the lock, or moves it away and back, and
// another process reserves, which may be stopped too, until the first has ended. Either may have made the file, so that
// it writes in place. No value is granted twice, and the sequence goes on.
func TestLockDeleted(t *testing.T) {
	runs := 0
	for _, made := range []string{"nobody", "this", "the other", "both in turn"} {
		for _, moved := range []bool{false, true} {
			for one, reached := 1, true; reached; one++ {
				// The other one is not stopped, or is stopped anywhere.
				for two, both := 0, true; both; two++ {
					when := fmt.Sprintf("the file was made by %s; stopped at %d; moved: %v, the other stopped at %d", made, one,
						moved, two)
					reached, both = lockDeleted(t, when, made, one, moved, two)
					both = moved && (both || two == 0)
					runs++
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

// lockDeleted returns which of the two were stopped.
func lockDeleted(t *testing.T, when, made string, at int, moved bool, otherAt int) (one, two bool) {
	w, disk := newWorld(), &crashdisk.Disk{}
	w.disk = disk
	define(t, w.open(t))
	first, second := newStopping(disk), newStopping(disk)
	w.disk = first
	this := w.open(t)
	w.disk = second
	other := w.open(t)
	reserve := func(from *file.Store) {
		if b, err := from.Reserve(ctx, odd.Name, 10); err == nil {
			w.grant(t, when, b)
		}
	}
	rename := func(from, to string) {
		if err := disk.Rename(from, to); err != nil {
			t.Error(when, err)
		}
	}
	switch made {
	case "both in turn":
		reserve(this)
		reserve(other)
		reserve(this)
	case "this":
		reserve(this)
	case "the other":
		reserve(other)
	}
	goesOn, ended := make(chan struct{}), make(chan struct{})
	first.count, first.at = 0, at
	first.meanwhile = func() {
		rename("orders.lock", "away")
		waits := make(chan struct{})
		second.count, second.at = 0, otherAt
		second.meanwhile = func() {
			close(waits)
			<-goesOn
		}
		go func() {
			defer close(ended)
			reserve(other)
		}()
		select {
		case <-waits:
		case <-ended:
		}
		if moved {
			rename("away", "orders.lock")
		}
	}
	reserve(this)
	close(goesOn)
	if one = first.count >= at; one {
		<-ended
		two = otherAt > 0 && second.count >= otherAt
	}
	first.at, second.at = 0, 0
	reserve(other)
	before := len(w.had)
	if reserve(this); len(w.had) == before {
		t.Fatal(when, ": nothing is granted any more")
	}
	return one, two
}

// Calls return when their context ends, more of them than may ask the disk at once too. Those for other sequences go
// on, and what was under way is no block that anybody could get again. The end does not wait.
func TestStalledDisk(t *testing.T) {
	disk := &crashdisk.Disk{}
	s, err := file.Open(file.Config{Dir: "/sequences", Disk: disk})
	if err != nil {
		t.Fatal(err)
	}
	define(t, s)
	gate := make(chan struct{})
	d := &crashdisk.Watched{Disk: disk, Before: func(op string) error {
		if op == "open orders.lock" { // nothing about this file is answered until the gate is opened
			<-gate
		}
		return nil
	}}
	if s, err = file.Open(file.Config{Dir: "/sequences", Disk: d}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			_, err := s.Reserve(short, odd.Name, 10)
			if countertest.Refused(t, err, context.DeadlineExceeded, "does not answer"); counter.Certain(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	countertest.Define(t, s, "items")
	close(gate)
	reserve(t, s, 10, 101, 119) // nobody waited any more for what was under way, so it granted nothing
	gate = make(chan struct{})
	if b, err := s.Reserve(short, odd.Name, 10); err == nil {
		t.Errorf("%+v", b)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(gate)
}
