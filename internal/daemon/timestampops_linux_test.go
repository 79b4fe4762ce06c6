package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A timestamped is the timestamps of two daemons, one of which leads them.
type timestamped struct {
	leads, follows *Daemon
	there, here    string // where they listen
}

// get asks a daemon for a timestamp.
func (f timestamped) get(t *testing.T, at string) uint64 {
	t.Helper()
	text := one(t, at, "get tx\r\n")
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(text)
	}
	return v
}

func TestTimestampsOfTwoDaemons(t *testing.T) {
	t.Parallel()
	url := etcdtest.URL(t, etcdtest.Start(t))
	fleet := func(c *Config) {
		c.Counters.URL, c.MaxWait, c.Definitions, c.HTTPPort = url, patience, txLine, redistest.FreePort(t)
	}
	var f timestamped
	f.leads, f.there = run(t, fleet)
	f.get(t, f.there)
	f.follows, f.here = run(t, fleet)
	t.Run("what operators see", f.seen)
	t.Run("what an operator changes", f.changed)
}

// seen: the status page and /metrics show on the daemon that leads them and on the other one the last id, up to which
// one the daemon may issue without another write, and how far ahead of the clock the last one is.
func (f timestamped) seen(t *testing.T) {
	leads, there, follows := f.leads, f.there, f.follows
	last := f.get(t, f.here)
	of := func(d *Daemon) *page.Sequence {
		t.Helper()
		for _, n := range d.observer.View().Names {
			if n.Name == "tx" && n.Kind == "snowflake" && n.Sequence != nil && n.Sequence.Timed != nil {
				return n.Sequence
			}
		}
		t.Fatalf("%+v", d.observer.View().Names)
		return nil
	}
	a, b := of(leads), of(follows)
	if a.Order != "strict" || a.Leader != "this daemon" || uint64(a.Last) != last || a.Timed.Hi <= last ||
		a.Timed.Hi&4095 != 4095 || generator.Katsubushi().Decompose(a.Timed.Hi).Worker != 1000 {
		t.Errorf("the leader shows %+v %+v, last %d", a, a.Timed, last)
	}
	if b.Order != "strict" || b.Leader != there || uint64(b.Last) != last || b.Timed.Hi != 0 || b.Timed.Distance != 0 {
		t.Errorf("the other one shows %+v %+v", b, b.Timed)
	}
	url := "http://" + leads.services.Addresses()[0].At.String()
	text := func(path string) string {
		_, s := fetch(t, url+path, "text/plain")
		return strings.ReplaceAll(s, ",", "")
	}
	if s := text("/"); !strings.Contains(s, strconv.FormatUint(last, 10)) || !strings.Contains(s, "ahead of the clock") ||
		!strings.Contains(s, "recorded up to "+strconv.FormatUint(a.Timed.Hi, 10)) {
		t.Errorf("the page: %s", s)
	}
	for v, is := range map[uint64]bool{last: true, last + 1<<22: false, last - 1<<15: false} {
		if s := text(fmt.Sprint("/?id=", v)); strings.Contains(s, "value of the sequence") != is {
			t.Errorf("the inspector says of %d, after %d: %s", v, last, s)
		}
	}
	for d, figures := range map[*Daemon]map[string]uint64{
		leads:   {"last": last, "hi": of(leads).Timed.Hi, "distance_seconds": 0},
		follows: {"last": last, "hi": 0, "distance_seconds": 0},
	} {
		all := strings.Join(d.metricLines(), "\n")
		for name, want := range figures {
			_, value, _ := strings.Cut(all, "katsubushi_generator_"+name+`{generator="tx",kind="snowflake"} `)
			value, _, _ = strings.Cut(value, "\n")
			if got, err := strconv.ParseFloat(value, 64); err != nil || got != float64(want) {
				t.Errorf("/metrics: %s is %q, not %d", name, value, want)
			}
		}
	}
}

// changed: an operator raises, lists and retires timestamps on a daemon that does not lead them.
func (f timestamped) changed(t *testing.T) {
	there, follows, here := f.there, f.follows, f.here
	last := f.get(t, here)
	l := generator.Katsubushi()
	var floor uint64
	var raise string
	var shown struct {
		Next, Floor uint64 `json:",string"`
		Definition  string
		Until       time.Time
		Unconfirmed []string
	}
	await(t, "the leader confirms a raise", func() bool { // it has four seconds, which a busy machine may need
		var err error
		floor, err = l.Compose(generator.Parts{Time: time.Now().Add(700 * time.Millisecond), Worker: 1000, Sequence: 9})
		if err != nil {
			t.Fatal(err)
		}
		raise = fmt.Sprintf("POST /generators/tx/raise?at_least=%d", floor)
		status, answer := follows.administer(t, raise)
		if shown.Unconfirmed = nil; status == http.StatusServiceUnavailable {
			return false // etcd was late
		}
		if err := json.Unmarshal([]byte(answer), &shown); status != 200 || err != nil || shown.Floor != floor ||
			shown.Next < floor || shown.Definition != txLine {
			t.Fatalf("%d %s, %+v, %v", status, answer, shown, err)
		}
		return shown.Unconfirmed == nil
	})
	for _, at := range []string{there, here} { // the leader has confirmed it
		v := f.get(t, at)
		if v < floor || v <= last {
			t.Errorf("%d after %d, raised to %d", v, last, floor)
		}
		last = v
	}
	if status, answer := follows.administer(t, raise); status != 409 || !strings.Contains(answer, "is not above") {
		t.Error(status, answer)
	}
	status, answer := follows.administer(t, "GET /generators/tx")
	if err := json.Unmarshal([]byte(answer), &shown); status != 200 || err != nil || shown.Next <= last ||
		!shown.Until.Equal(l.Decompose(shown.Next).Time) {
		t.Errorf("%d %s, %v", status, answer, err)
	}
	if status, answer := follows.administer(t, "DELETE /generators/tx?force=true"); status != 200 ||
		!strings.Contains(answer, `"retired"`) {
		t.Error(status, answer)
	}
	for _, at := range []string{there, here} {
		await(t, "it is retired", func() bool { return one(t, at, "get tx\r\n") == "SERVER_ERROR sequence tx is retired" })
		says := one(t, at, "*2\r\n$4\r\nINCR\r\n$2\r\ntx\r\n")
		moved := fmt.Sprintf("-MOVED %d %s", id.Slot("tx"), there)
		if says != "-ERR sequence tx is retired" && (at == there || says != moved) {
			t.Errorf("%q", says)
		}
	}
	raise = fmt.Sprintf("POST /generators/tx/raise?at_least=%d", last+1<<30)
	if status, answer := follows.administer(t, raise); status != 409 || !strings.Contains(answer, "retired") {
		t.Error(status, answer)
	}
}
