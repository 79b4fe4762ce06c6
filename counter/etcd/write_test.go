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
		got, err := s.link.get(ctx, q.key)
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.stateOf(q.key, got)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	nothing := read()
	r := &record{Record: counter.NewRecord(counter.Sequence("orders"), "first"), Key: q.key, Cluster: nothing.cluster, Birth: "b"}
	if now, written, err := s.write(ctx, q, nothing, r, edit{announce: true}); err != nil || !written {
		t.Fatalf("%+v, %v, %v", now, written, err)
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
		now, written, err := s.write(ctx, q, found, &next, edit{announce: true})
		if err != nil || written || now.record == nil || now.text != there.text {
			t.Errorf("%s: %+v, %v, %v", what, now, written, err)
		}
	}
	found := there
	found.cluster = "17"
	if _, _, err := s.write(ctx, q, found, &next, edit{announce: true}); !errors.Is(err, counter.ErrForeign) || !strings.Contains(err.Error(), "two clusters, 17 and "+there.cluster) {
		t.Errorf("another cluster: %v", err)
	}
}
