//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// All that root makes in somebody's directory belongs to them.
func TestRootMakesFilesForTheOwnerOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files for others")
	}
	const uid, gid = 65533, 65532
	dir := t.TempDir()
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "state", "sequences")
	if _, err := (OS{}).Prepare(deep); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(deep, "orders")
	f, err := OS{}.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, p := range []string{filepath.Dir(deep), deep, path} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != uid || s.Gid != gid {
			t.Errorf("%s belongs to %d:%d", p, s.Uid, s.Gid)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", p, info.Mode())
		}
	}
	// What is there already stays whose it is.
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	if f, err = (OS{}).Open(path, true); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, _ := os.Stat(path); info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Error("a file that was there was given away")
	}
}

// A write would replace the link, and leave the record under its other name as it was.
func TestSymbolicLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	link, other := filepath.Join(dir, "link"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("content"), 0o600), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		if f, err := (OS{}).Open(link, create); !errors.Is(err, ErrLink) {
			t.Errorf("create %v: %v, %v", create, f, err)
		}
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	// The directory may be reached by one.
	if err := os.Symlink(dir, filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.Open(filepath.Join(dir, "here", "other"), false)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// After a power cut a directory is lost if the name of any one above it was not synced.
func TestEveryNewDirectoryIsSynced(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	for range 2 {
		if err := makeDir(filepath.Join(dir, "a", "b", "c"), sync); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	broken := errors.New("no")
	if err := makeDir(filepath.Join(dir, "x", "y"), func(string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (OS{}).Prepare(filepath.Join(dir, "file", "below")); err == nil {
		t.Error(fmt.Errorf("a directory below a file was made"))
	}
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

// TestWhichFileItIs: a file knows its path as long as it is open, wherever that leads meanwhile.
func TestWhichFileItIs(t *testing.T) {
	dir := t.TempDir()
	path, away := filepath.Join(dir, "a.lock"), filepath.Join(dir, "away")
	f, err := OS{}.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	id := f.ID()
	is := func(want bool, when string) {
		t.Helper()
		if f.Is(path) != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	is(true, "just made")
	if err := os.Rename(path, away); err != nil {
		t.Fatal(err)
	}
	is(false, "moved away")
	other, err := OS{}.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	is(false, "another file is there")
	if other.ID() == id {
		t.Errorf("two files are %s", id)
	}
	if err := errors.Join(other.Close(), os.Rename(away, path)); err != nil {
		t.Fatal(err)
	}
	is(true, "moved back")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if is(false, "closed"); f.ID() != "" {
		t.Errorf("closed, it is %s", f.ID())
	}
}
