package durable

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestVersions: a Version is not known while its clock may stand still. A directory's changes with every change of a
// name, and does not with what is written into a file, but the file's own does.
func TestVersions(t *testing.T) {
	inFolders(t, "testdata/versions.script", func(f *folder) script.Calls {
		at := func(path string) Version { return version(f.in(path), time.Now().Add(coarsest+time.Second)) }
		last := map[string]Version{}
		return script.Calls{
			// now PATH: whether it has a Version just now; version PATH: how it is long after that, and before file times
			// go on
			"now": func(path string) bool { return OS{}.Version(f.in(path)) != (Version{}) },
			"version": func(path string) string {
				was, v := last[path], at(path)
				last[path] = v
				for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
					runtime.Gosched()
				}
				switch v {
				case Version{}:
					return "none"
				case was:
					return "the same"
				}
				return "another"
			},
			// twins A B: until both were made in the same tick, whether they have one Version
			"twins": func(a, b string) (bool, error) {
				for {
					err := errors.Join(os.RemoveAll(f.in(a)), os.RemoveAll(f.in(b)), os.Mkdir(f.in(a), 0o700),
						os.Mkdir(f.in(b), 0o700))
					if one, two := at(a), at(b); err != nil || one == two || one.Changed == two.Changed {
						return one == two, err
					}
				}
			},
			// date PATH: its times are those that its last version told of
			"date": func(path string) error {
				old := time.Unix(0, last[path].Changed)
				return os.Chtimes(f.in(path), old, old)
			},
		}
	})
}

// TestReadingNeedsNoRightToWrite: an operator may look at the records of a file system that is read-only. Here it is
// one that nobody may write to, root neither.
func TestReadingNeedsNoRightToWrite(t *testing.T) {
	const path = "/sys/kernel/uevent_seqnum"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	if f, err := (OS{}).Open(path, false); err == nil {
		f.Close()
		t.Skip("it can be written")
	}
	if got, err := Read(OS{}, path); err != nil || len(got) != len(want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
