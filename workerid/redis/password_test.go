package redis

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writePassword(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// The password is changed while a daemon holds a worker id: it goes on over the connection that it
// has, and logs in with what is in the file when it makes the next one.
func TestPasswordFile(t *testing.T) {
	for _, user := range []string{"", "katsubushi"} {
		t.Run("user "+user, func(t *testing.T) {
			w := newWorld(t)
			admin, name := w.server.Client(), cmp.Or(user, "default")
			do := func(args ...any) {
				t.Helper()
				if err := admin.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			do("PING") // it is let in while nobody needs a password, and stays
			change := func(password string) {
				do("ACL", "SETUSER", name, "on", "resetpass", ">"+password, "~*", "&*", "+@all")
			}
			file := filepath.Join(t.TempDir(), "password")
			writePassword(t, file, "first: hush \n", 0o600) // the newline is no part of it, everything else is
			w.config.URL = "redis://" + strings.TrimPrefix(user+"@", "@") + w.server.Addr() + "/0?ns=" + w.namespace
			w.config.PasswordFile = file
			if user != "" {
				w.config.HoldRaus = "raus" // whose connection is another one
			}
			change("first: hush ")
			d := w.holder()

			change("second\nhush")
			d.mustExtend()
			do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			if err := d.settle(); err == nil || strings.Contains(err.Error(), "hush") ||
				!strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("with an old password: %v", err)
			}
			if _, err := w.pool().List(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("list with an old password: %v", err)
			}
			writePassword(t, file, "second\nhush", 0o644)
			if err := d.settle(); err == nil || strings.Contains(err.Error(), "hush") ||
				!strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("others can read the file: %v", err)
			}
			writePassword(t, file, "second\nhush\r\n", 0o600)
			d.mustExtend()
			if all, err := w.pool().List(t.Context()); err != nil || len(all) != 3 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}
