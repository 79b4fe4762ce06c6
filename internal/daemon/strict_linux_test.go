package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// figure returns a number of `stats generators`.
func (d *Daemon) figure(t *testing.T, name string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(d.texts("generators")[name], 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// demote hands groups over, or says why not.
func (d *Daemon) demote(ctx context.Context, group int) error {
	if r := runnerOf(d).Load(); r != nil {
		return r.Demote(ctx, group)
	}
	return leader.ErrNotLeader
}

// handsOver hears when a daemon that stops hands a group over: its ports must be open then, so that it can
// forward.
type handsOver struct {
	slog.Handler
	t       *testing.T
	d       atomic.Pointer[Daemon]
	address atomic.Pointer[string]
	groups  atomic.Int64
}

func (h *handsOver) Handle(ctx context.Context, r slog.Record) error {
	leaves := func(d *Daemon) bool {
		return at(reflect.ValueOf(d.observer).Elem(), "stopping").Addr().Interface().(*atomic.Bool).Load()
	}
	if d := h.d.Load(); d != nil && leaves(d) && r.Message == "a group of sequences is handed over" &&
		h.groups.Add(1) == 1 { // a busy machine may close the ports before the last one
		for range 20 { // the stop waits for this, and ports that are about to close do not
			c, err := net.Dial("tcp", *h.address.Load())
			if err != nil {
				h.t.Errorf("it hands over when its ports are closed: %v", err)
				break
			}
			c.Close()
			time.Sleep(5 * time.Millisecond)
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (*handsOver) Enabled(context.Context, slog.Level) bool { return true }

// Two daemons lead in turns: the one that does not lead forwards, or says where to ask, and both show who leads. A
// daemon that stands still for seconds may lose its groups, so all is awaited.
func TestLeading(t *testing.T) {
	t.Parallel()
	url := etcdtest.URL(t, etcdtest.Start(t))
	fleet := func(c *Config) {
		c.Counters.URL, c.MaxWait, c.Definitions = url, time.Minute, "orders sequence order=strict"
	}
	first, at := run(t, fleet)
	stopping := &handsOver{t: t} // at the end of the test, while the first one runs
	t.Cleanup(func() {
		if stopping.groups.Load() == 0 && !t.Failed() {
			t.Error("a daemon that stops has handed nothing over")
		}
	})
	second, there := run(t, func(c *Config) {
		fleet(c)
		stopping.Handler = c.Log.Handler()
		c.Log = slog.New(stopping)
	})
	stopping.address.Store(&there)
	stopping.d.Store(second)
	g := leader.GroupOf("orders")
	follows := func() bool {
		v, leads := first.observer.View(), second.observer.View()
		if v.Leading != 0 || leads.Leading != leader.Groups { // it may lead some again
			first.demote(t.Context(), leader.All)
			return false
		}
		return len(v.Groups) == 1 && v.Groups[0].Leader == there && !v.Groups[0].Mine && leads.Groups[0].Mine
	}
	await(t, "the second one leads, and both status pages show it", follows)
	for n := range uint64(3) {
		value(t, at, "orders", n+1)
	}
	term := fmt.Sprintf(`{"group":%d,"leader":"%s","id":"%s","term":"`, g, there, second.names.Topology().Self)
	await(t, "clients are told, and operators", func() bool {
		if !follows() {
			return false
		}
		moved := one(t, at, "*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n")
		status, answer := first.administer(t, "GET /leaders")
		return moved == fmt.Sprintf("-MOVED %d %s", id.Slot("orders"), there) && status == 200 &&
			strings.Contains(answer, term) && errors.Join(first.observer.Ready(), second.observer.Ready()) == nil &&
			strings.Contains(strings.Join(first.metricLines(), "\n"), "\nkatsubushi_forward_values_total ") &&
			first.figure(t, "forward_values_total") >= 1
	})
	back := fmt.Sprintf(`{"demoted":[{"group":%d,"from":"%s","to":"%s"}]}`, g, there, at)
	await(t, "an operator gets a group back, from wherever he is", func() bool {
		status, answer := first.administer(t, fmt.Sprintf("POST /leaders/%d/demote", g))
		return status == 200 && answer == back+"\n"
	})
}

// A daemon that listens on all addresses, and names none, leads nothing: the others cannot reach it. A sequence that
// others created does not keep it from running.
func TestADaemonWithoutAnAddressFollows(t *testing.T) {
	t.Parallel()
	settings := stores.Counters{URL: etcdtest.URL(t, etcdtest.Start(t))}
	admin, err := settings.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	def := counter.Sequence("orders")
	def.Strict = true
	if _, err := admin.Define(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	d, _ := run(t, func(c *Config) { c.Counters, c.MaxWait, c.Bind = settings, time.Minute, "" })
	await(t, "the log tells", func() bool {
		return slices.ContainsFunc(d.observer.View().Events, func(e page.Event) bool {
			return e.Level == "ERROR" && strings.HasPrefix(e.Text, "this daemon leads no sequence")
		})
	})
	if n := d.figure(t, "leader_terms_total"); n != 0 {
		t.Errorf("it led %d times", n)
	}
}
