package authfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestAllows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write(t, path, "ann:secret\r\n\nbob:with:colon\nlast: no newline", 0o600)
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, password string
		want           bool
	}{
		{"ann", "secret", true}, {"bob", "with:colon", true}, {"last", " no newline", true},
		{"ann", "with:colon", false}, {"ann", "", false}, {"", "", false}, {"bob:with", "colon", false}, {"ANN", "secret", false},
	} {
		if got := f.Allows([]byte(c.name), []byte(c.password)); got != c.want {
			t.Errorf("%s, %s: %v", c.name, c.password, got)
		}
	}
}

func TestReloadKeepsTheUsersWhenTheFileIsBad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	write(t, path, "ann:one\n", 0o600)
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "ann:two\n", 0o640)
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by the group: %v", err)
	}
	if !f.Allows([]byte("ann"), []byte("one")) {
		t.Error("the old password is gone")
	}
	if name, password, err := First(path); err == nil {
		t.Errorf("First read %s:%s", name, password)
	}
	write(t, path, "ann:two\n", 0o600)
	if err := f.Reload(); err != nil || !f.Allows([]byte("ann"), []byte("two")) || f.Allows([]byte("ann"), []byte("one")) {
		t.Errorf("not reloaded: %v", err)
	}
	if name, password, err := First(path); name != "ann" || password != "two" || err != nil {
		t.Errorf("First: %s:%s %v", name, password, err)
	}
}

func TestBadFilesAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "no users",
		"\n\n":                            "no users",
		"ann:secret\nbob\n":               "line 2: user:password expected",
		":secret\n":                       "line 1: a user name of 0 bytes",
		"ann:\n":                          "line 1: a password of 0 bytes",
		"ann:" + strings.Repeat("x", 257): "a password of 257 bytes",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "users")
	if _, err := Load(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	write(t, path, strings.Repeat("a:b\n", MaxFile/4+1), 0o600)
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than 65536 bytes") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("ann:secret\nbob:with:colon\r\n"))
	f.Add([]byte("\n:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, err := parse(text)
		if (err == nil) != (len(users) > 0) {
			t.Fatalf("%d users, %v", len(users), err)
		}
	})
}
