package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestConformance(t *testing.T) {
	open := func(t *testing.T) countertest.Open { return openIn(t.TempDir()) }
	countertest.Run(t, open)
	countertest.RunTimestamps(t, open)
}

func openIn(dir string) countertest.Open {
	return func(t *testing.T) (counter.Store, counter.Admin) {
		s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, s
	}
}

func TestADamagedRecord(t *testing.T) {
	for damage, content := range map[string]func(dir string) ([]byte, error){
		"lost content":        func(string) ([]byte, error) { return make([]byte, 8192), nil },
		"of another sequence": func(dir string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, "items.sequence")) },
	} {
		t.Run(damage, func(t *testing.T) {
			dir := t.TempDir()
			countertest.RunDamaged(t, openIn(dir), func(name string) {
				b, err := content(dir)
				if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".sequence"), b, 0o600)); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
