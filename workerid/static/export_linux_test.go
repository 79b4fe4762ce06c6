package static

import (
	"os"
	"testing"
)

// PageID is what Find would want a file to be called.
func PageID(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := pageID(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
