package static_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
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
	clocks = new(int)
	w, s, held = severalOn(t, func(d *watched) static.Disk {
		disk = d
		return d
	}, func(c *static.Config) {
		clock := c.Clocks
		c.Clocks = func() static.Clocks {
			*clocks++
			return clock()
		}
	})
	w.pass(500)
	return w, disk, s, held, clocks
}

// severalOn is several on the disk that on makes of a watched one.
func severalOn(
	t *testing.T, on func(*watched) static.Disk, change ...func(*static.Config),
) (w *world, s *static.Store, held []workerid.Grant) {
	t.Helper()
	w = newWorld(t)
	w.disk, w.memory = on(&watched{Disk: &crashdisk.Disk{}}), &crashdisk.Memory{}
	c := w.config(7, 8, 9)
	c.AnyDisk = true
	for _, f := range change {
		f(&c)
	}
	s, err := static.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for id := uint64(7); id <= 9; id++ {
		held = append(held, mustAcquire(t, s, workerid.Request{Owner: "me", Min: id, Max: id}))
	}
	return w, s, held
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

// versioned is a disk whose directory may lie on a file system of the kind, and has a Version only while certain is
// set.
type versioned struct {
	*watched
	kind    string
	certain bool
}

func (d *versioned) Prepare(string) (string, error) { return d.kind, nil }

func (d *versioned) Version(dir string) durable.Version {
	if !d.certain {
		return durable.Version{}
	}
	return d.watched.Version(dir)
}

// TestOneLookAtTheDirectoryIsEnough: files are looked at again only once a name in the directory has changed, or where
// that is not known.
func TestOneLookAtTheDirectoryIsEnough(t *testing.T) {
	for kind, again := range map[string]int64{"": 0, "overlay": 6} {
		t.Run("on "+kind, func(t *testing.T) {
			var looks atomic.Int64 // several files are extended at once
			disk := &versioned{kind: kind, certain: true}
			w, s, held := severalOn(t, func(d *watched) static.Disk {
				d.look = func(string) { looks.Add(1) }
				disk.watched = d
				return disk
			})
			extend := func(what string, want int64, lost bool) {
				t.Helper()
				w.pass(100)
				looks.Store(0)
				results, err := s.Extend(ctx, held)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range results {
					switch {
					case lost && i == 1:
						if !errors.Is(r.Err, workerid.ErrLost) {
							t.Errorf("%s: %+v", what, r)
						}
					case r.Err != nil || r.Grant.Hi != w.id+2000:
						t.Errorf("%s: %+v", what, r)
					default:
						held[i].Hi = r.Grant.Hi
					}
				}
				if n := looks.Load(); n != want && !lost {
					t.Errorf("%s: %d looks at files, not %d", what, n, want)
				}
			}
			extend("at first", 6, false)
			extend("then", again, false)
			disk.certain = false
			extend("while nothing is certain", 6, false)
			disk.certain = true
			extend("once it is again", 6, false)
			extend("after that", again, false)
			if f, err := disk.Open("other", true); err != nil {
				t.Fatal(err)
			} else if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			extend("when another file was made", 6, false)
			for _, name := range []string{"worker-8.state", "worker-8.lock"} {
				if err := disk.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			extend("when a file was deleted", 0, true)
		})
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
