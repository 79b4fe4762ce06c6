package redis

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/workerid"
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

// Redis's answer to a wrong password, and whatever is wrong with the file, is told without what is
// in it.
func TestPasswordFileThatIsNotRight(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	c := Config{URL: "redis://h", Terms: workerid.Terms{Layout: "l", Min: 1, Max: 3}, Options: Options{PasswordFile: file}}
	for _, x := range []struct {
		text string
		mode os.FileMode
		url  string
		want string
	}{
		{"hush\n", 0o640, "redis://h",
			"PasswordFile: " + file + ": mode 0640 lets others use the secret in it: chmod 600 it"},
		{"hush\n", 0o604, "redis://h",
			"PasswordFile: " + file + ": mode 0604 lets others use the secret in it: chmod 600 it"},
		{"", 0o600, "redis://h", "PasswordFile: " + file + ": no password is in it"},
		{"\r\n", 0o600, "redis://h", "PasswordFile: " + file + ": no password is in it"},
		{strings.Repeat("x", 4097), 0o600, "redis://h", "PasswordFile: " + file + ": larger than 4096 bytes"},
		{strings.Repeat("x", 5000), 0o600, "redis://h", "PasswordFile: " + file + ": larger than 4098 bytes"},
		{"hush\n", 0o600, "redis://:other@h", "PasswordFile: there is a password in the URL too: one of the two is allowed"},
		{"hush\n", 0o600, "redis://u:other@h", "PasswordFile: there is a password in the URL too: one of the two is allowed"},
		{strings.Repeat("x", 4096) + "\r\n", 0o600, "redis://u@h", ""},
		{"hush", 0o600, "rediscluster://a,b", ""},
		{"hush", 0o400, "redis+sentinel://a,b/main?sentinel_password=other", ""},
	} {
		os.Remove(file)
		writePassword(t, file, x.text, x.mode)
		c.URL = x.url
		_, err := Open(c)
		if got := fmt.Sprint(err); x.want == "" && err != nil || x.want != "" && got != x.want {
			t.Errorf("%.20q, mode %#o, %s: %v", x.text, x.mode, x.url, got)
		}
	}
	os.Remove(file)
	if _, err := Open(c); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	c.PasswordFile = filepath.Dir(file)
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
}
