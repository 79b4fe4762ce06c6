package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/mount"
)

// frozenDisk is a file system of its own, on a file, that can be frozen: whoever writes to it then
// waits. It skips the test where that is not allowed.
func frozenDisk(t *testing.T) (dir string, freeze, thaw func()) {
	t.Helper()
	d, err := mount.NewDisk(t)
	if err != nil {
		t.Skip(err)
	}
	freeze = func() {
		t.Helper()
		if err := d.Freeze(); err != nil {
			t.Skipf("the disk cannot be frozen: %v", err)
		}
	}
	thaw = func() {
		if err := d.Thaw(); err != nil {
			t.Error(err)
		}
	}
	return d.Dir, freeze, thaw
}

// TestProcessStateFilesDeleted: somebody deletes the files of a daemon and starts another one,
// which cannot see the first: it is in another network namespace, or makes no claim. The first one
// is stopped meanwhile, and then both serve.
func TestProcessStateFilesDeleted(t *testing.T) {
	t.Parallel()
	c := census{lanes: 2}
	args := append(onDisk(t), "-worker-id", "30")
	first := start(t, args...)
	a := c.load(t, first.Addr(), 2, 20)
	a.awaitMore(t, 1000)
	for _, long := range []bool{false, true} {
		first.Pause(t)
		for _, name := range []string{"worker-30.lock", "worker-30.state"} {
			if err := os.Remove(filepath.Join(args[1], name)); err != nil {
				t.Fatal(err)
			}
		}
		second := start(t, args...)
		b := c.load(t, second.Addr(), 2, 20)
		b.awaitMore(t, 1)
		begins, refused := b.newest.Load(), a.refused.Load() // at first it issues from the next second
		first.Resume(t)
		if long {
			await(t, "the first one refuses, or issues from the time of the second one's ids", func() bool {
				return a.refused.Load() > refused || a.newest.Load() > begins
			})
		}
		b.awaitMore(t, 3000)
		b.kill(second)
		if !long {
			a.awaitMore(t, 1000) // from its window, at least
		}
	}
	a.finish(t)
	c.verdict(t)
}
