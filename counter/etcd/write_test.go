package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// A write takes place only if nothing has changed since the read: neither the revision, nor the text, as
// two clusters may have the same revisions, nor the cluster.
func TestWriteCompares(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	s, err := Open(Config{URL: etcdtest.URL(t, m), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	q, err := s.enter(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	read := func() state {
		t.Helper()
		j := &job{q: q}
		if err := errors.Join(s.read(ctx, []*job{j}), j.err); err != nil {
			t.Fatal(err)
		}
		return j.found
	}
	write := func(found state, r *record) (*job, error) {
		j := &job{q: q, edit: edit{announce: true}, found: found, next: r}
		return j, errors.Join(s.write(ctx, []*job{j}), j.err)
	}
	nothing := read()
	r := &record{Record: counter.NewRecord(counter.Sequence("orders"), "first"), Key: q.key, Cluster: nothing.cluster,
		Birth: "b"}
	if j, err := write(nothing, r); err != nil || !j.over {
		t.Fatalf("%+v, %v", j.found, err)
	}
	there := read()
	next := *r
	next.Token = "next"
	for what, change := range map[string]func(*state){
		"nothing was there":    func(f *state) { *f = nothing },
		"another revision":     func(f *state) { f.revision-- },
		"another text":         func(f *state) { f.text = strings.Replace(f.text, "first", "other", 1) },
		"no revision was read": func(f *state) { f.revision = 0 },
	} {
		found := there
		change(&found)
		j, err := write(found, &next)
		if err != nil || j.over || j.found.record == nil || j.found.text != there.text {
			t.Errorf("%s: %+v, %v, %v", what, j.found, j.over, err)
		}
	}
	found := there
	found.cluster = "17"
	_, err = write(found, &next)
	if !errors.Is(err, counter.ErrForeign) || !strings.Contains(err.Error(), "two clusters, 17 and "+there.cluster) {
		t.Errorf("another cluster: %v", err)
	}
}
