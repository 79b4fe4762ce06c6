package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A daemon is named from before its first block until it has said that it has learnt of a change, or has
// ended.
func TestBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sequences")
	open := func() *file.Store {
		t.Helper()
		s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	operator, daemon := open(), open()
	behind := func(when string, want int) {
		t.Helper()
		list, err := operator.Behind(ctx)
		if err != nil || len(list) != want || want > 0 && !strings.Contains(list[0].Name, "/") {
			t.Errorf("%s: %+v, %v; want %d", when, list, err, want)
		}
	}
	since := ""
	poll := func() {
		t.Helper()
		now, _, err := daemon.Changes(ctx, since)
		if err != nil {
			t.Fatal(err)
		}
		since = now
	}
	poll() // there is no directory
	if _, err := operator.Behind(ctx); err != nil {
		t.Errorf("without a directory: %v", err)
	}
	define(t, operator)
	behind("without a daemon", 0)
	if _, err := daemon.Reserve(ctx, odd.Name, 5); err != nil {
		t.Fatal(err)
	}
	behind("a daemon that has a block and has learnt of nothing", 1)
	poll()
	behind("while it learns of what there is", 1)
	poll()
	behind("once it has", 0)
	if _, err := operator.Raise(ctx, odd.Name, 1001); err != nil {
		t.Fatal(err)
	}
	behind("after a raise", 1)
	poll()
	behind("while it learns of it", 1)
	poll()
	behind("once it has learnt", 0)
	if _, err := operator.Raise(ctx, odd.Name, 2001); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Reserve(ctx, odd.Name, 5); err != nil {
		t.Fatal(err)
	}
	behind("a block does not confirm a raise", 1)
	if err := daemon.Close(); err != nil {
		t.Error(err)
	}
	behind("after a clean stop", 0)
	if left := notes(dir); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}

func notes(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "*.daemon"))
	return list
}

// A daemon that was killed has let go of its lock: it is not named, and the next one takes its file away.
// One that could not write down anything is named.
func TestBehindOfOtherDaemons(t *testing.T) {
	dir := t.TempDir()
	s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	define(t, s)
	killed := filepath.Join(dir, "killed.daemon")
	if err := os.WriteFile(killed, []byte("\x001000 host/1 old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Behind(ctx); err != nil || len(list) > 0 || len(notes(dir)) > 0 {
		t.Errorf("%v, %v, %v", list, err, notes(dir))
	}
	mute, err := durable.OS{}.Open(filepath.Join(dir, "mute.daemon"), true)
	if err == nil {
		defer mute.Close()
		err = mute.Lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.Behind(ctx); err != nil || len(list) != 1 || !strings.Contains(list[0].Name, "mute.daemon") {
		t.Errorf("%v, %v", list, err)
	}
}

// If the other daemons could not be told, nobody can say which of them have learnt of it.
func TestBehindWithoutAnAnnouncement(t *testing.T) {
	dir := t.TempDir()
	s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	define(t, s)
	announcement := filepath.Join(dir, "changes")
	if err := os.Remove(announcement); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", announcement); err != nil { // it cannot be written
		t.Fatal(err)
	}
	if _, err := s.Raise(ctx, odd.Name, 1001); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Behind(ctx); err == nil {
		t.Errorf("%v, without an error", list)
	}
}
