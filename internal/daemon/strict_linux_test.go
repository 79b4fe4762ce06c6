package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
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

// texts returns a group of statistics.
func (d *Daemon) texts(group string) map[string]string {
	m := map[string]string{}
	d.observer.Stats([]byte(group), func(name, value string) { m[name] = value })
	return m
}

// demote hands groups over, or says why not.
func (d *Daemon) demote(ctx context.Context, group int) error {
	if r := runnerOf(d).Load(); r != nil {
		return r.Demote(ctx, group)
	}
	return leader.ErrNotLeader
}

// administer sends METHOD /path to the admin port that the daemon would have.
func (d *Daemon) administer(t *testing.T, request string) (status int, answer string) {
	t.Helper()
	list, err := users.Load(authFile(t, "ann:top:*=admin"))
	if err != nil {
		t.Fatal(err)
	}
	var all users.Directory
	all.Replace(list)
	c := at(reflect.ValueOf(d.services).Elem(), "g", "Admin").Interface().(adminapi.Config)
	c.Login = func(http.ResponseWriter, *http.Request) *users.Account { return all.Bearer([]byte("top")) }
	method, path, _ := strings.Cut(request, " ")
	w := httptest.NewRecorder()
	adminapi.New(c).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	for tries := 0; method == "GET" && w.Code == http.StatusServiceUnavailable && tries < 20; tries++ { // etcd was late
		w = httptest.NewRecorder()
		adminapi.New(c).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	}
	return w.Code, w.Body.String()
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

// Two daemons lead in turns. What each of them says of that is what has happened. If one of them stands still for
// seconds, the other one takes its groups: then nothing is shown, and two others begin.
func TestLeading(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	for try, shown := 1, false; !shown && !t.Failed(); try++ {
		if try > 5 { // or they count what has not happened
			t.Fatal("in each of five tries a daemon was late")
		}
		t.Run(strconv.Itoa(try), func(t *testing.T) { shown = leadInTurns(t, m) })
	}
}

// leadInTurns skips the test if a daemon was late.
func leadInTurns(t *testing.T, m *etcdtest.Member) (shown bool) {
	fleet := func(c *Config) {
		c.Counters.URL, c.MaxWait = etcdtest.URL(t, m), time.Minute
		c.Definitions = "orders sequence order=strict"
	}
	first, at := run(t, fleet)
	all, moves := []*Daemon{first}, 2*leader.Groups // that this test makes: so many terms begin
	onTime := func() {
		t.Helper()
		began, lost := 0, 0
		for _, d := range all {
			figures := d.texts("generators") // none before there is an election
			terms, _ := strconv.Atoi(figures["leader_terms_total"])
			gone, _ := strconv.Atoi(figures["leader_lost_total"])
			began, lost = began+terms, lost+gone
		}
		if began > moves || lost > 0 {
			t.Skipf("a daemon was late: %d terms have begun, %d were lost", began, lost)
		}
	}
	var wrong []string
	errorf := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	await := func(what string, is func() bool) {
		t.Helper()
		await(t, what, func() bool {
			onTime()
			return is()
		})
	}
	// says waits until a figure has a value.
	says := func(d *Daemon, name string, want int64) {
		t.Helper()
		await(name+" is "+strconv.FormatInt(want, 10), func() bool {
			return d.texts("generators")[name] == strconv.FormatInt(want, 10)
		})
	}
	says(first, "leader_groups", leader.Groups)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := first.demote(ctx, 3); !errors.Is(err, leader.ErrAlone) {
		errorf("alone: %v", err)
	}
	stopping := &handsOver{} // at the end of the test, while the first one runs
	t.Cleanup(func() {
		if shown && stopping.groups.Load() == 0 {
			t.Error("a daemon that stops has handed nothing over")
		}
	})
	second, there := run(t, func(c *Config) {
		fleet(c)
		stopping.Handler, stopping.t = c.Log.Handler(), t
		c.Log = slog.New(stopping)
	})
	all = append(all, second)
	stopping.address.Store(&there)
	stopping.d.Store(second)
	if err := second.demote(ctx, 3); !errors.Is(err, leader.ErrNotLeader) {
		errorf("of another one: %v", err)
	}
	await("the other one is known", func() bool { return first.demote(ctx, leader.All) == nil })
	says(second, "leader_groups", leader.Groups)
	g := leader.GroupOf("orders")
	prefix := "group_" + strconv.Itoa(g) + "_"
	await("the first follows the second", func() bool { return first.texts("generators")[prefix+"leader"] == there })

	c := dial(t, at)
	for want := 1; want <= 3; want++ {
		io.WriteString(c, "get orders\r\n")
		answer := "VALUE orders 0 1\r\n" + strconv.Itoa(want) + "\r\nEND\r\n"
		b := make([]byte, len(answer))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != answer {
			onTime()
			t.Fatalf("%q, %v", b, err)
		}
	}
	for _, x := range []struct {
		d       *Daemon
		leading int
		mine    bool
	}{{first, 0, false}, {second, leader.Groups, true}} {
		await("the status page shows who leads", func() bool {
			v := x.d.observer.View()
			return v.Leading == x.leading && len(v.Groups) == 1 &&
				v.Groups[0] == page.Group{Number: g, Leader: there, Mine: x.mine, Term: 2}
		})
	}
	moved := fmt.Sprintf("-MOVED %d %s\r\n", id.Slot("orders"), there)
	redis, b := dial(t, at), make([]byte, len(moved))
	io.WriteString(redis, "*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n")
	if _, err := io.ReadFull(redis, b); err != nil || string(b) != moved {
		errorf("%q, %v, want %q", b, err, moved)
	}
	for _, f := range []struct {
		d    *Daemon
		name string
		want int64
	}{
		{first, "leader_groups", 0}, {first, "leader_terms_total", 16}, {first, "leader_handed_over_total", 16},
		{first, "leader_lost_total", 0},
		{first, "leader_until_ms", 0}, {first, "forward_values_total", 3}, {second, "forward_requests_total", 0},
		{second, "forward_values_total", 0},
		{second, "leader_terms_total", 16}, {second, "leader_handed_over_total", 0}, {first, prefix + "leader_term", 2},
		{second, prefix + "leader_term", 2},
		{first, "orders:issued", 0}, {second, "orders:issued", 3},
	} {
		if got := f.d.figure(t, f.name); got != f.want {
			errorf("%s is %d, want %d", f.name, got, f.want)
		}
	}
	if sent, failed := first.figure(t, "forward_requests_total"),
		first.figure(t, "forward_failures_total"); sent-failed != 3 {
		errorf("%d requests forwarded, %d failed", sent, failed)
	}
	if left := second.figure(t, "leader_until_ms"); left < -60_000 || left > 4500 {
		errorf("it may issue for %d ms", left)
	}
	await("renewals go on", func() bool { return second.figure(t, "leader_renewals_total") >= 2 })
	if topology := first.names.Topology(); topology.Epoch != 32 || len(topology.Nodes) != 2 ||
		len(topology.Nodes[0].Slots) != 0 ||
		len(topology.Nodes[1].Slots) != 1 || topology.Nodes[1].Slots[0] != (protocol.Slots{First: 0, Last: 16383}) ||
		there != topology.Nodes[1].Host+":"+strconv.Itoa(topology.Nodes[1].Port) {
		errorf("%+v", topology)
	}
	want := fmt.Sprintf(`{"group":%d,"leader":"%s","id":"%s","term":"2"}`, g, there, second.names.Topology().Self)
	if status, answer := first.administer(t, "GET /leaders"); status != 200 || !strings.Contains(answer, want) {
		errorf("%d %s", status, answer)
	}
	metrics := strings.Join(first.metricLines(), "\n")
	for _, line := range []string{"katsubushi_leader_terms_total 16", "katsubushi_forward_values_total 3",
		"katsubushi_leader_groups 0",
		`katsubushi_leader_term{group="` + strconv.Itoa(g) + `"} 2`, "# TYPE katsubushi_leader_terms_total counter",
		"# TYPE katsubushi_leader_groups gauge"} {
		if !strings.Contains(metrics, line+"\n") {
			errorf("/metrics has no %s", line)
		}
	}
	if err := errors.Join(first.observer.Ready(), second.observer.Ready()); err != nil {
		errorf("%v", err)
	}

	// An operator wants it back, from wherever he is.
	moves++
	want = fmt.Sprintf(`{"demoted":[{"group":%d,"from":"%s","to":"%s"}]}`, g, there, at)
	if status, answer := first.administer(t, fmt.Sprintf("POST /leaders/%d/demote", g)); status != 200 ||
		answer != want+"\n" {
		errorf("%d %s", status, answer)
	}
	says(first, "leader_groups", 1)
	says(second, "leader_handed_over_total", 1)
	onTime()
	for _, text := range wrong {
		t.Error(text)
	}
	return true
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
