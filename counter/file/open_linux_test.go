package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
)

// A user who may create sequences must not be able to take all descriptors with them, neither now nor from the next
// start: only so many files stay open. The others go on where they were, whichever are closed.
func TestSequencesShareDescriptors(t *testing.T) {
	dir := t.TempDir()
	open := func() (n int) {
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	const sequences = 40
	for round, most := range []int{file.LeastOpen, 25, sequences} {
		s, err := file.Open(file.Config{Dir: dir, AnyDisk: true, Open: most})
		if err != nil {
			t.Fatal(err)
		}
		for turn := range 3 {
			for i := range sequences {
				d := counter.Definition{Name: fmt.Sprint("seq", i), Start: 1, Step: 1, Offset: 1, Max: 1 << 40}
				if _, err := s.Define(ctx, d); err != nil {
					t.Fatal(err)
				}
				b, err := s.Reserve(ctx, d.Name, 10)
				if want := uint64(1 + 10*(3*round+turn)); err != nil || b.Lo != want {
					t.Fatalf("%s, turn %d: %+v, %v; want it from %d", d.Name, turn, b, err, want)
				}
			}
			if n := open(); n != most+1 { // and what says that this daemon runs
				t.Errorf("%d sequences, at most %d: %d files are open", sequences, most, n)
			}
		}
		if err := s.Close(); err != nil || open() != 0 {
			t.Errorf("%v; %d files are open in the end", err, open())
		}
	}
}
