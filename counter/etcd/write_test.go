package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
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
	d, key := driver{s}, s.keyOf("orders")
	read := func() ledger.Found {
		t.Helper()
		found, err := d.Load(ctx, []string{"orders"})
		if err != nil {
			t.Fatal(err)
		}
		return found[0]
	}
	write := func(found ledger.Found, e ledger.Entry) ([]ledger.Found, error) {
		return d.Swap(ctx, nil, []ledger.Write{{Found: found, Next: e, Announce: true}})
	}
	nothing := read()
	e, err := d.New(nothing, counter.Sequence("orders"), "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(nothing, e); err != nil {
		t.Fatal(err)
	}
	there := read()
	next := e.Copy()
	next.Plain().Token = "next"
	for what, change := range map[string]func(*version){
		"nothing was there":    func(v *version) { *v = nothing.Version.(version) },
		"another revision":     func(v *version) { v.revision-- },
		"another text":         func(v *version) { v.text = strings.Replace(v.text, "first", "other", 1) },
		"no revision was read": func(v *version) { v.revision = 0 },
	} {
		v := there.Version.(version)
		change(&v)
		now, err := write(ledger.Found{Version: v}, next)
		if !errors.Is(err, ledger.ErrAgain) || len(now) != 1 || now[0].Version != there.Version {
			t.Errorf("%s: %+v, %v", what, now, err)
		}
	}
	v := there.Version.(version)
	v.cluster = "17"
	_, err = write(ledger.Found{Version: v}, next)
	if !errors.Is(err, counter.ErrForeign) ||
		!strings.Contains(err.Error(), key+": the hosts of the URL belong to two clusters, 17 and "+s.cluster) {
		t.Errorf("another cluster: %v", err)
	}
}
