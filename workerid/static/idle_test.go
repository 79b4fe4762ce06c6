package static_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The tests in this file are about extensions that need nothing.

// A watched disk tells of each look at a path, and may hold up the opening of one.
type watched struct {
	*crashdisk.Disk
	look func(path string)
	open func(path string)
}

type watchedFile struct {
	static.File
	of *watched
}

func (f watchedFile) Is(path string) bool {
	if f.of.look != nil {
		f.of.look(path)
	}
	return f.File.Is(path)
}

func (d *watched) Open(path string, create bool) (static.File, error) {
	if d.open != nil {
		d.open(path)
	}
	f, err := d.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, d}, nil
}

// several returns a Store that holds the worker ids 7, 8 and 9, its clock 500 ms later. clocks is how often it read all
// clocks.
func several(t *testing.T) (w *world, disk *watched, s *static.Store, held []workerid.Grant, clocks *int) {
	w, disk, clocks = newWorld(t), &watched{Disk: &crashdisk.Disk{}}, new(int)
	w.disk, w.memory = disk, &crashdisk.Memory{}
	c := w.config(7, 8, 9)
	c.Clocks = func() static.Clocks {
		*clocks++
		return w.clocks
	}
	s, err := static.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for id := uint64(7); id <= 9; id++ {
		held = append(held, mustAcquire(t, s, workerid.Request{Owner: "me", Min: id, Max: id}))
	}
	w.pass(500)
	return w, disk, s, held, clocks
}

func goroutine() string {
	b := make([]byte, 64)
	b, _, _ = bytes.Cut(b[:runtime.Stack(b, false)], []byte(" ["))
	return string(b)
}

// TestAnExtensionWakesNobody: as long as the marks are far enough, one goroutine looks after all files, and asks no
// clock for more than the present.
func TestAnExtensionWakesNobody(t *testing.T) {
	w, disk, s, held, clocks := several(t)
	me, looks, read := goroutine(), 0, *clocks
	var mu sync.Mutex
	disk.look = func(path string) {
		mu.Lock()
		defer mu.Unlock()
		looks++
		if who := goroutine(); who != me {
			t.Errorf("%s looked at %s, and %s extends", who, path, me)
		}
	}
	results, err := s.Extend(ctx, held)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil || r.Grant.Hi != w.id+2000 {
			t.Errorf("%+v", r)
		}
	}
	if looks != 6 || *clocks != read {
		t.Errorf("%d looks at 3 locks and 3 files, %d readings of all clocks", looks, *clocks-read)
	}
}

// TestAFileThatWaitsHoldsNoOtherUp: the others are extended meanwhile. The bubble ends the test if all goroutines wait.
func TestAFileThatWaitsHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, disk, s, held, _ := several(t)
		if err := disk.Remove("worker-7.lock"); err != nil {
			t.Fatal(err)
		}
		others := make(chan struct{}, 2)
		disk.open = func(path string) {
			if strings.HasSuffix(path, "worker-7.lock") {
				<-others
				<-others
			}
		}
		disk.look = func(path string) {
			if strings.HasSuffix(path, "worker-8.state") || strings.HasSuffix(path, "worker-9.state") {
				others <- struct{}{}
			}
		}
		results, err := s.Extend(ctx, held)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Errorf("%+v", r)
			}
		}
	})
}
