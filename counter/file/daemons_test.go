package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

func notes(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "*.daemon"))
	return list
}

// A daemon that was killed has let go of its lock: it is not named, and the next one takes its file away.
// One that could not write down anything is named.
func TestBehindOfOtherDaemons(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
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
	s := storeIn(t, dir)
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
