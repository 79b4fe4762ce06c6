package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

func TestCountersAreInTheStateDirectory(t *testing.T) {
	state, elsewhere := t.TempDir(), t.TempDir()
	for url, want := range map[string]string{"": state + "/sequences", "file": state + "/sequences",
		"file://" + elsewhere: elsewhere} {
		s, err := Counters{URL: url, Dir: state, AnyDisk: true}.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Define(context.Background(), counter.Sequence("orders")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := os.Stat(filepath.Join(want, "orders.sequence")); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// However many sequences there are in files, they leave most descriptors to connections, so that a daemon starts
// with all that a user may have created. Only order=strict holds one for each, unless it is retired.
func TestDescriptorsAreShared(t *testing.T) {
	c := Counters{Dir: t.TempDir(), AnyDisk: true}
	s, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"free", "strict", "ended"} {
		d := counter.Sequence(name)
		d.Strict = name != "free"
		if _, err := s.Define(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Retire(t.Context(), "ended"); err != nil {
		t.Fatal(err)
	}
	many := []kinds.Definition{kinds.Declared(counter.Definition{Name: "strict"}),
		{Definition: counter.Definition{Name: "another"}, Kind: "uuid7"}}
	for i := range 990 {
		many = append(many, kinds.Declared(counter.Definition{Name: fmt.Sprint("a", i), Strict: i >= 970}))
	}
	for _, one := range []struct {
		declared              []kinds.Definition
		files, records, locks int
	}{
		{nil, 1024, 3, 1},
		{many, 1024, (1024 - 21) / recordShare, 21},
		{many, 65536, 993, 21},
		{many, 20, file.LeastOpen, 21},
	} {
		if records, locks := c.Descriptors(one.declared, one.files); records != one.records || locks != one.locks {
			t.Errorf("%d declared, %d files: %d records, %d locks; want %d, %d",
				len(one.declared), one.files, records, locks, one.records, one.locks)
		}
	}
	if records, locks := (Counters{URL: "etcd://h"}).Descriptors(many, 1024); records != 0 || locks != 0 {
		t.Errorf("in etcd: %d records, %d locks", records, locks)
	}
}
