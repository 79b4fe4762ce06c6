//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A folder is what a script does in a directory, by the commands of a shell too, and files that it has opened.
type folder struct {
	t     *testing.T
	dir   string
	files map[string]File
	calls script.Calls
}

// inFolders plays a script, each section in a directory of its own.
func inFolders(t *testing.T, path string, more func(*folder) script.Calls) {
	script.Run(t, path, func(t *testing.T, play func(script.Do)) {
		f := &folder{t: t, dir: t.TempDir(), files: map[string]File{}}
		f.calls = script.Calls{
			"root": func() {
				if os.Geteuid() != 0 {
					t.Skip("only root can do that")
				}
			},
			"$":       f.shell,
			"prepare": func(dir string) error { return second((OS{}).Prepare(f.in(dir))) },
			// open NAME PATH [create]; close NAME, is NAME PATH
			"open": func(name, path string, create ...string) (err error) {
				f.files[name], err = OS{}.Open(f.in(path), len(create) > 0)
				return err
			},
			"close": func(name string) error { return f.files[name].Close() },
			"is":    func(name, path string) bool { return f.files[name].Is(f.in(path)) },
			"same":  func(a, b string) bool { return f.files[a].ID() == f.files[b].ID() },
			"id":    func(name string) bool { return f.files[name].ID() != "" },
			// make DIR: which directories are synced for it; make-failing DIR: none can be
			"make": func(dir string) (string, error) {
				var synced []string
				err := makeDir(f.in(dir), func(dir string) error {
					synced = append(synced, dir)
					return nil
				})
				return strings.Join(synced, "\n"), err
			},
			"make-failing": func(dir string) error {
				return makeDir(f.in(dir), func(string) error { return errors.New("no") })
			},
		}
		maps.Copy(f.calls, more(f))
		play(func(words []string) string { return strings.ReplaceAll(f.calls.Do(t, words), f.dir, "DIR") })
	})
}

func second[T any](_ T, err error) error { return err }

func (f *folder) in(path string) string { return filepath.Join(f.dir, path) }

func (f *folder) shell(words []string) string {
	c := exec.Command("sh", "-c", strings.Join(words, " "))
	c.Dir = f.dir
	said, err := c.CombinedOutput()
	if err != nil {
		f.t.Error(err)
	}
	return string(said)
}

// TestFiles: whose files and directories are, which are refused, synced, and still there.
func TestFiles(t *testing.T) {
	inFolders(t, "testdata/files.script", func(*folder) script.Calls { return nil })
}

// A volume that belongs to root is the usual mistake with the image, whose user is 65532.
func TestAnErrorOfPermissionsNamesTheOwner(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	dir := os.Getenv("KATSUBUSHI_DIR")
	if dir == "" {
		t.Skip("it takes root to make a directory of root's for it")
	}
	_, prepared := (OS{}).Prepare(filepath.Join(dir, "katsubushi"))
	_, made := OS{}.Open(filepath.Join(dir, "worker-1"), true)
	_, opened := OS{}.Open(filepath.Join(dir, "of-root"), false)
	for _, err := range []error{prepared, made, opened, Try(dir)} {
		want := []string{"belongs to user 0, group 0", "this process is user 65532, group 65532: chown 65532:65532 " + dir,
			"fsGroup: 65532"}
		for _, w := range want {
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), w) {
				t.Errorf("%v lacks %q", err, w)
			}
		}
	}
	_, err := (OS{}).Prepare("/nonexistent/katsubushi") // the home of many system users
	const of, advice = ": / belongs to user 0", ": name a directory that this user may write to"
	if text := fmt.Sprint(err); !strings.Contains(text, of) || !strings.HasSuffix(text, advice) {
		t.Error(err)
	}
	if _, err := (OS{}).Open(filepath.Join(dir, "missing"), false); strings.Contains(err.Error(), "belongs") {
		t.Error(err)
	}
}

// asNobody runs the test once more as another user.
func asNobody(t *testing.T) {
	// others must not be kept out above it, as they are of t.TempDir's in some places
	dir, err := os.MkdirTemp("", "katsubushi-durable")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "test")
	if err := os.Link(os.Args[0], program); errors.Is(err, syscall.EXDEV) {
		t.Skip("the test's program is on another file system than temporary files: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "of-root"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir, c.Env = "/", append(os.Environ(), "KATSUBUSHI_DIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
