package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/names"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/services"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// watching makes an Observer and the rooms that it watches, which listen nowhere: one lane, and these names.
// Until issue is called the lane has no window.
func watching(t *testing.T, generators string, change func(*Config)) *Observer {
	t.Helper()
	kept := new(events.Log)
	log := slog.New(kept.Handler(slog.DiscardHandler))
	c := Config{
		Version: "3.4.5", Started: time.Now(), Log: log, Events: kept,
		Windows: &windows.Config{
			Log: log, WorkerIDs: []uint64{7}, Layout: generator.Katsubushi(), MaxRunAhead: time.Second,
		},
		Front:    &front.Config{Bind: "127.0.0.1", Engine: "net", Loops: 1, MaxConnections: 10},
		Services: &services.Config{},
	}
	change(&c)
	o := New(c)
	c.Windows.Ready = o.Ready
	w := windows.New(*c.Windows)
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Stop(true) })
	n := names.New(names.Config{Definitions: generators, Own: names.Lanes{
		Layout: c.Windows.Layout, RunAhead: c.Windows.MaxRunAhead, MaxWorker: 7,
	}}, names.Given{Log: log, Issuer: w.Issuer, Now: w.Clock.Now, Wake: func() {}})
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := front.New(*c.Front, front.Given{Version: c.Version, Log: log, Noise: log, Now: w.Clock.Now,
		Handler: func(loop int) protocol.Handler { return n.Catalog.Handler(loop, o.Stats) }})
	if err != nil {
		t.Fatal(err)
	}
	s := services.New(*c.Services, services.Given{Log: log, Noise: log})
	o.Watch(Rooms{Windows: w, Names: n, Front: f, Services: s})
	return o
}

func unchanged(*Config) {}

// issue gives the lane a window, and takes one id under a name.
func (o *Observer) issue(t *testing.T, name string) {
	t.Helper()
	if err := o.windows.Issuer.Publish(0, 7, o.windows.Clock.Now(), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if _, err := o.names.Catalog.Batch(t.Context(), []byte(name), 1); err != nil {
		t.Fatal(err)
	}
}

// TestReadyUntilItLeaves: an Observer says why no ids are issued; once it leaves it says that alone, and the page
// does not call it a fault.
func TestReadyUntilItLeaves(t *testing.T) {
	o := watching(t, "", unchanged)
	if err := o.Ready(); err == nil || !strings.HasPrefix(o.Readiness().Error(), err.Error()+"\nlane 0: acquiring for ") ||
		!strings.HasPrefix(o.Status(), err.Error()) || o.View().NotReady != err.Error() {
		t.Errorf("without a window: %v, %v, %s, %q", err, o.Readiness(), o.Status(), o.View().NotReady)
	}
	o.issue(t, "id")
	if err := errors.Join(o.Ready(), o.Readiness()); err != nil || !strings.HasPrefix(o.Status(), "serving") ||
		o.View().NotReady != "" || o.View().Stopping {
		t.Errorf("with a window: %v, %s, %+v", err, o.Status(), o.View())
	}
	o.Leave()
	for what, got := range map[string]string{
		"ready": fmt.Sprint(o.Ready()), "readyz": fmt.Sprint(o.Readiness()), "status": o.Status(),
	} {
		if got != "shutting down" {
			t.Errorf("%s of one that leaves: %s", what, got)
		}
	}
	if v := o.View(); !v.Stopping || v.NotReady != "" {
		t.Errorf("the page of one that leaves: %v, %q", v.Stopping, v.NotReady)
	}
}

// TestWhyItIsNotReady: the page tells a daemon that issues nothing from one whose strict order alone is not ready.
func TestWhyItIsNotReady(t *testing.T) {
	none, far := errors.New("no worker id"), errors.New("the leader does not answer")
	replaced := fmt.Errorf("refused: %w", leader.ErrReplaced)
	for _, c := range []struct {
		err, lanes                  error
		notReady, noStrict, restart string
	}{
		{nil, nil, "", "", ""}, {none, none, none.Error(), "", ""}, {far, nil, "", far.Error(), ""},
		{far, none, far.Error(), "", ""}, {replaced, nil, "", "", replaced.Error()},
	} {
		for _, stopping := range []bool{false, true} {
			v := page.View{Stopping: stopping}
			showUnready(&v, c.err, c.lanes)
			if stopping {
				c.notReady, c.noStrict, c.restart = "", "", ""
			}
			if v.NotReady != c.notReady || v.NoStrict != c.noStrict || v.Restart != c.restart {
				t.Errorf("%v, lanes %v: %q, %q, %q", c.err, c.lanes, v.NotReady, v.NoStrict, v.Restart)
			}
		}
	}
}

// TestGroupsOfStatistics: which there are, and that the general one has numbers alone, but for the version.
func TestGroupsOfStatistics(t *testing.T) {
	o := watching(t, "u uuid4", unchanged)
	for group, want := range map[string]string{
		"": "version 3.4.5", "settings": "layout katsubushi", "slabs": "total_malloced 0", "lanes": "ready 0",
		"leases": "", "generators": "u:kind uuid4", "items": "", "sizes": "none",
	} {
		var lines []string
		there := o.Stats([]byte(group), func(name, value string) { lines = append(lines, name+" "+value) })
		if there != (want != "none") || there && want != "" && !slices.Contains(lines, want) {
			t.Errorf("%q: %v, %q has no %q", group, there, lines, want)
		}
	}
}

// TestChartsUntilStop: samples are taken from Start to Stop, and only where a port shows them.
func TestChartsUntilStop(t *testing.T) {
	for port, want := range map[int]bool{0: false, 8080: true} {
		synctest.Test(t, func(t *testing.T) {
			o := watching(t, "", unchanged)
			nowhere := o.services
			o.services = services.New(services.Config{HTTPPort: port}, services.Given{Log: o.c.Log, Noise: o.c.Log})
			o.Start()
			time.Sleep(3 * page.Every)
			o.Stop() // else the bubble does not end
			o.services = nowhere
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept", "text/html")
			o.Page().ServeHTTP(w, r)
			if got := strings.Contains(w.Body.String(), `class="line"`); got != want {
				t.Errorf("port %d: there is something to chart: %v", port, got)
			}
		})
	}
}

// TestWhatWasNotReloaded is shown until a reload succeeds, and logged.
func TestWhatWasNotReloaded(t *testing.T) {
	o := watching(t, "", unchanged)
	for _, c := range []struct {
		err  error
		want []string
	}{
		{nil, nil}, {errors.New("line 1\nline 2"), []string{"names: line 1; line 2"}}, {nil, nil},
	} {
		o.Reloaded("names", c.err)
		if got := o.View().NotReloaded; !slices.Equal(got, c.want) {
			t.Errorf("after %v: %q", c.err, got)
		}
		last, want := o.View().Events[0].Text, "reloaded what=names"
		if c.err != nil {
			want = "not reloaded, the old one stays in force what=names error=" + c.err.Error()
		}
		if last != want {
			t.Errorf("after %v the log says %q", c.err, last)
		}
	}
}

// TestUndeclaredKeysAreRefused while the counter store has not said what it has, and the page says so.
func TestUndeclaredKeysAreRefused(t *testing.T) {
	o := watching(t, "", unchanged)
	for _, why := range []error{errors.New("no answer"), nil} {
		o.names.Catalog.RefuseUnknown(false, why)
		if got := o.View().Unsure; (got == "no answer") != (why != nil) {
			t.Errorf("%q, and not why: %v", got, why)
		}
	}
}

// TestPageNamesTheStore: its kind, what it says of itself, and what findings need.
func TestPageNamesTheStore(t *testing.T) {
	store := factual{func(emit func(figure.Figure)) workerid.Condition {
		figure.Info(emit, "lease_etcd", "Where.", "", "servers", "address", "h:1", "error", "error", "")
		emit(figure.Figure{Stat: "lease_etcd_floor_ms", Value: 1500 * time.Millisecond})
		return workerid.Condition{Server: "h:1", ClockAhead: 2, FloorWait: 3, Replicas: 4, Needed: 5}
	}}
	o := watching(t, "", func(c *Config) {
		c.Windows.WorkerIDs, c.Windows.Lanes = nil, 1
		c.Windows.Store = windows.Store{
			Open: func(func() int64, string) (workerid.Backend, error) { return store, nil }, Max: 7, Lease: time.Minute,
			Heartbeat: time.Second,
		}
	})
	if s := o.pageStore(nil); s.Kind != "none" || s.Full != 0 {
		t.Errorf("without a record: %+v", s)
	}
	o.c.Windows.StateDir = "/var/lib/k"
	if s := o.pageStore(nil); s.Kind != "state directory" || s.Where != "/var/lib/k" || s.Full != 2*time.Second ||
		s.Short != 500*time.Millisecond {
		t.Errorf("a state directory: %+v", s)
	}
	if s := o.pageStore([]page.Lane{{Left: 27 * time.Second}}); s.Full != 30*time.Second {
		t.Errorf("a state directory with memory: %+v", s)
	}
	o.c.Store.URL = "redis://h/"
	if s := o.pageStore(nil); s.Server != "h:1" || s.ClockOff != 2 || s.Wait != 3 || s.Replicas != 4 || s.Needed != 5 {
		t.Errorf("a server: %+v", s)
	}
	want := []string{"etcd_servers h:1", "etcd_error ", "etcd_floor 1.5s"}
	if got := o.storeFacts(); !slices.Equal(got, want) {
		t.Errorf("/readyz says %q of it, want %q", got, want)
	}
}

// A factual store is one of which something is known.
type factual struct {
	figures func(emit func(figure.Figure)) workerid.Condition
}

func (f factual) Figures(emit func(figure.Figure)) workerid.Condition { return f.figures(emit) }
func (factual) Close() error                                          { return nil }

func (factual) Acquire(context.Context, workerid.Request) (workerid.Grant, error) {
	return workerid.Grant{}, workerid.ErrNoID
}

func (factual) Extend(context.Context, []workerid.Grant) ([]workerid.Result, error) { return nil, nil }
func (factual) Release(context.Context, workerid.Grant, int64) error                { return nil }

// TestClientsWhereUsersLogIn are not shown: the page cannot tell who reads it.
func TestClientsWhereUsersLogIn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		shown  bool
	}{
		"no users": {unchanged, true}, "a file": {func(c *Config) { c.Front.AuthFile = "users" }, false},
		"a store": {func(c *Config) { c.Front.Users = "counters" }, false},
	} {
		o := New(Config{Front: new(front.Config)})
		c.change(&o.c)
		o.front, o.services = new(front.Front), new(services.Services)
		if got := o.clients(); (got != nil) != c.shown {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPageShowsAlarms: each by its kind.
func TestPageShowsAlarms(t *testing.T) {
	for k := range announce.NumKinds {
		var v page.View
		var alarms [announce.NumKinds]string
		alarms[k] = "a text"
		showPeers(&v, announce.Figures{Peers: 3, Asked: 2, Answered: 1, Unreadable: 4}, alarms)
		if len(v.Alarms) != 1 || v.Alarms[0] != (page.Alarm{Kind: k.String(), Text: "a text"}) ||
			v.Peers != 3 || v.PeersAsked != 2 || v.Told != 1 || v.Unreadable != 4 {
			t.Errorf("%v: %+v", k, v)
		}
	}
}

// TestManyNamesAreReadOnceASecond: many lookers must not cost the clients of many names their time.
// Few names are always fresh.
func TestManyNamesAreReadOnceASecond(t *testing.T) {
	for _, n := range []int{fewNames, fewNames + 1} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("n%d snowflake layout=twitter", i))
		}
		lines[7] = "n7 uuid4"
		o := watching(t, strings.Join(lines, ";"), unchanged)
		o.View()
		if kept := !o.named.until.IsZero(); kept != (n > fewNames) || kept && time.Until(o.named.until) > time.Second {
			t.Errorf("%d names: kept until %v", n, o.named.until)
		}
		if n > fewNames {
			o.named.until = time.Now().Add(time.Hour)
			o.issue(t, "n7")
			if v := o.View(); v.Names[7].Issued != 0 || len(v.Others) != 1 {
				t.Errorf("%d issued, %d layouts: they were read again", v.Names[7].Issued, len(v.Others))
			}
			o.named.until = time.Now().Add(-time.Millisecond)
		} else {
			o.issue(t, "n7")
		}
		if v := o.View(); v.Names[7].Issued != 1 || len(v.Names) != n || len(v.Others) != 1 {
			t.Errorf("%d of %d names, %d issued, %d layouts", len(v.Names), n, v.Names[7].Issued, len(v.Others))
		}
	}
}

// TestTroubleOfNames: a name that only refuses, since the start and lately.
func TestTroubleOfNames(t *testing.T) {
	o := watching(t, "random uuid7;other uuid4", unchanged)
	refuse := func() {
		if _, err := o.names.Catalog.Batch(t.Context(), []byte("random"), 3); err == nil {
			t.Fatal("ids without a window")
		}
	}
	refuse()
	if v := o.View(); v.Lately != 0 || v.Names[0].Lately != (page.NameCounts{}) || v.Names[0].Refused != 1 {
		t.Errorf("before a sample: %v, %+v", v.Lately, v.Names[0])
	}
	ended, end := context.WithCancel(t.Context())
	end()
	o.counted.Run(ended, func(d time.Duration) time.Duration { return d }, o.nameCounts)
	refuse()
	v := o.View()
	if n := v.Names[0]; n.Refused != 2 || n.Lately != (page.NameCounts{Refused: 1}) || v.Lately <= 0 {
		t.Errorf("%v, %+v", v.Lately, n)
	}
	if n := v.Names[1]; n.NameCounts != (page.NameCounts{}) {
		t.Errorf("another name: %+v", n)
	}
}

// TestOtherLayouts: those of names, each once, and not the daemon's own.
func TestOtherLayouts(t *testing.T) {
	o := watching(t, "a snowflake layout=twitter; b snowflake layout=twitter; c snowflake layout=katsubushi; d uuid7; "+
		"e snowflake layout=sonyflake", unchanged)
	var names []string
	for _, l := range o.View().Others {
		names = append(names, l.Name)
	}
	if !slices.Equal(names, []string{"twitter", "sonyflake"}) {
		t.Errorf("%v", names)
	}
}

// TestManyLanesAreOneEvent: what happens to 64 lanes at once is a line, and hides nothing that was before. With
// logins no line shows the values of a sequence.
func TestManyLanesAreOneEvent(t *testing.T) {
	var list []events.Event // the newest first
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	event := func(text string, ago time.Duration, attrs ...slog.Attr) {
		list = append(list, events.Event{At: now.Add(-ago), Text: text, Attrs: attrs})
	}
	for lane := range 64 {
		at := time.Duration(lane) * 10 * time.Millisecond
		number, worker := slog.Int("lane", 63-lane), slog.Uint64("worker_id", uint64(100-lane))
		event("lease", at, number, slog.String("state", "serving"), worker)
		event("lease", at, number, slog.String("state", "acquiring"))
	}
	event("lease", time.Hour, slog.Int("lane", 7), slog.String("state", "serving"), slog.Uint64("worker_id", 44))
	event("users", 2*time.Hour, slog.Int("count", 3), slog.String("lane", "x"))
	event("users", 2*time.Hour, slog.Int("count", 3), slog.String("lane", "x"))
	event("it ends", 3*time.Hour, slog.String("sequence", "orders"), slog.Uint64("left", 20), slog.Int("failures", 3))
	for _, logins := range []bool{false, true} {
		var got []string
		for _, e := range pageEvents(list, logins) {
			got = append(got, e.Text)
		}
		want := []string{
			"lease lane=0–63 state=serving worker_id=37–100", "lease lane=0–63 state=acquiring",
			"lease lane=7 state=serving worker_id=44", "users count=3 lane=x", "users count=3 lane=x",
			"it ends sequence=orders" + map[bool]string{false: " left=20"}[logins] + " failures=3",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSettings: what `stats settings` says of the limits and of where the daemon listens.
func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		front front.Config
		want  string
	}{
		"ports": {front.Config{Bind: "127.0.0.1", Port: 5, UDPPort: 6, MaxConnections: 9, SockMode: 0o700, Loops: 1},
			"maxconns 9, tcpport 5, udpport 6, inter 127.0.0.1, domain_socket NULL, umask 700, num_threads 1"},
		"a socket": {front.Config{Port: 5, Sock: "/s", MaxConnections: 9, SockMode: 0o750, Loops: 2},
			"maxconns 9, tcpport 0, udpport 0, inter NULL, domain_socket /s, umask 750, num_threads 2"},
	} {
		c.front.Engine = "net"
		o := watching(t, "", func(o *Config) { o.Front = &c.front })
		var got []string
		for _, f := range o.settingStats() {
			if strings.Contains(c.want, f.Stat+" ") {
				got = append(got, fmt.Sprintf("%s %v", f.Stat, f.Value))
			}
		}
		if says := strings.Join(got, ", "); says != c.want {
			t.Errorf("%s: %s, want %s", name, says, c.want)
		}
	}
}
