package durable

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestVersion: a Version is not known while its clock may stand still. A directory's changes with every change of a
// name, and does not with what is written into a file, but the file's own does.
func TestVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	goOn := func() { // until file times have gone on
		for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
			runtime.Gosched()
		}
	}
	must(os.Mkdir(dir, 0o700))
	must(os.WriteFile(in("a"), nil, 0o600))
	if v := (OS{}).Version(dir); v != (Version{}) {
		t.Errorf("just after a change: %+v", v)
	}
	at := func(path string) Version { return version(path, time.Now().Add(coarsest+time.Second)) }
	later := func() Version { return at(dir) }
	last, empty := later(), at(in("a"))
	if last == (Version{}) || last != later() {
		t.Fatalf("long after it: %+v, %+v", last, later())
	}
	goOn()
	must(os.WriteFile(in("a"), []byte("text"), 0o600))
	if v := later(); v != last {
		t.Errorf("a file was written to: %+v, %+v", v, last)
	}
	if v := at(in("a")); v == empty || v == (Version{}) {
		t.Errorf("that file: %+v, before %+v", v, empty)
	}
	for _, change := range []struct {
		what string
		do   func() error
	}{
		{"made", func() error { return os.WriteFile(in("b"), nil, 0o600) }},
		{"replaced", func() error { return os.Rename(in("b"), in("a")) }},
		{"moved away", func() error { return os.Rename(in("a"), in("c")) }},
		{"moved back", func() error { return os.Rename(in("c"), in("a")) }},
		{"linked", func() error { return os.Link(in("a"), in("d")) }},
		{"removed", func() error { return os.Remove(in("a")) }},
		{"removed, with the old times set again", func() error {
			old := time.Unix(0, last.Changed)
			if err := os.Remove(in("d")); err != nil {
				return err
			}
			return os.Chtimes(dir, old, old)
		}},
		{"those of another directory", func() error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		}},
	} {
		goOn()
		must(change.do())
		v := later()
		if v == last || v == (Version{}) {
			t.Errorf("%s: %+v, before %+v", change.what, v, last)
		}
		last = v
	}
	must(os.RemoveAll(dir))
	if v := later(); v != (Version{}) {
		t.Errorf("without a directory: %+v", v)
	}
	for last, other := (Version{}), (Version{}); other == (Version{}) || other.Changed != last.Changed; {
		// until both were made in the same tick
		must(errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".2"), os.Mkdir(dir, 0o700), os.Mkdir(dir+".2", 0o700)))
		last, other = later(), at(dir+".2")
		if last == other {
			t.Errorf("two directories have one Version: %+v", last)
		}
	}
}
