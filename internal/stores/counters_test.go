package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

func TestCounterURLs(t *testing.T) {
	const unknown = "a URL begins with file, redis, rediss, rediscluster, redisclusters, redis+sentinel, " +
		"rediss+sentinel, unix, etcd, etcds, postgres, postgresql, mysql, and ://; file alone is allowed too"
	for _, c := range []struct {
		url, dir string
		wrong    string
		nowhere  bool
	}{
		{"", "/state", "", false},
		{"file", "/state", "", false},
		{"file:///elsewhere", "", "", false},
		{"", "", "", true},
		{"file", "", "", true},
		{"file://", "/state", "with three slashes", true},
		{"file://sequences", "/state", "with three slashes", false},
		{"postgres://ids@db/app", "", "", false},
		{"mysql://ids@/app?socket=/run/mysqld/mysqld.sock", "", "", false},
		{"mysql://ids@db", "", "it names no database", false},
		{"mongo://a", "/state", unknown, false},
		{"etcd", "/state", unknown, false},
		{"zookeeper://a", "/state", unknown, false},
		{"etcd://a", "", "", false},
		{"etcds://a:1,b:2/p?ns=x", "", "", false},
		{"etcd://:2379", "", "names no host", false},
		{"redis://h/0?ns=x&replicas=2", "", "", false},
		{"redis+sentinel://a,b/main?replicas=1", "", "", false},
		{"redis+sentinel://a,b/main", "", "`katsubushi name replicas K -counters URL`", false},
		{"rediscluster://a,b?replicas=1", "", "", false},
		{"redis:///0", "", "names no host", false},
		{"redis://u:hush@h?replicas=-1", "", "replicas=-1: 0 to 100 allowed", false},
		{"redis://u:hush@h:port", "", "a port is", false},
		{"/sequences", "/state", unknown, false},
	} {
		s := Counters{URL: c.url, Dir: c.dir}
		err := s.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.url, err, c.wrong)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: the error tells the password", c.url)
		}
		for _, p := range problem.Of(err) {
			if p.Field != "URL" {
				t.Errorf("%q: the problem is that of %q", c.url, p.Field)
			}
		}
		if s.Nowhere() != c.nowhere {
			t.Errorf("%q in %q: nowhere %v", c.url, c.dir, !c.nowhere)
		}
		if _, err := s.Open(); c.nowhere && !errors.Is(err, ErrNoPlace) || c.wrong != "" && err == nil &&
			!strings.HasPrefix(c.url, "file://") {
			t.Errorf("%q in %q: opened, %v", c.url, c.dir, err)
		}
	}
}

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

// Strict order takes one host, or a store that elects who issues.
func TestStrictOrder(t *testing.T) {
	for url, elects := range map[string]bool{"file": true, "etcd://h": true, "etcds://h": true, "redis://h": false,
		"postgres://u@h/d": false, "mysql://u@h/d": false} {
		d := kinds.Declared(counter.Sequence("orders"))
		d.Strict = true
		err := Counters{URL: url}.CheckDefinition(d)
		if refused := err != nil && strings.Contains(err.Error(), "nothing elects the one daemon"); refused == elects {
			t.Errorf("%s: %v", url, err)
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
