package file_test

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestConformance(t *testing.T) {
	open := func(t *testing.T) countertest.Open {
		dir := t.TempDir()
		return func(t *testing.T) countertest.Client { return storeIn(t, dir) }
	}
	countertest.Run(t, open)
	countertest.RunTimestamps(t, open)
}

// storeIn is a Store on the real disk.
func storeIn(t *testing.T, dir string) *file.Store {
	t.Helper()
	s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
