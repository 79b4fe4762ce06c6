package file_test

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestConformance(t *testing.T) {
	countertest.Run(t, func(t *testing.T) countertest.Open {
		dir := t.TempDir()
		return func(t *testing.T) (counter.Store, counter.Admin) {
			s, err := file.Open(file.Config{Dir: dir, AnyDisk: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s, s
		}
	})
}
