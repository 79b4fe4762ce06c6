package daemon

import (
	"errors"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// shownStores are stores of worker ids, and how to let one know what it can.
var shownStores = []struct {
	name, url string
	know      func(store reflect.Value) (forget func())
}{
	{"redis", "redis://127.0.0.1:1/?ns=shown", func(s reflect.Value) func() {
		at(s, "status").Set(reflect.ValueOf(redis.Status{
			Addr: "10.0.0.5:6379", Incarnation: "aa:bb", Ahead: -1501 * time.Millisecond, Needed: 2, Replicas: 1,
		}))
		return func() {}
	}},
	{"etcd", "etcd://127.0.0.1:1,127.0.0.2:1/?ns=shown", func(s reflect.Value) func() {
		knowCAS(s)
		driver := at(s, "c", "Driver").Elem().Elem()
		conn := at(driver, "conn")
		conn.Set(reflect.New(conn.Type().Elem()))
		at(conn.Elem(), "Endpoint").SetString("http://10.0.0.6:2379")
		at(driver, "lease").SetInt(0xabc)
		at(driver, "cluster").SetString("c1")
		at(driver, "member").SetString("m1")
		at(driver, "history", "Revision").SetInt(77)
		at(driver, "history", "Term").SetInt(5)
		at(driver, "last").Set(reflect.ValueOf(errors.New("no answer")))
		return func() { conn.SetZero() }
	}},
	{"zookeeper", "zookeeper://127.0.0.1:1,127.0.0.2:1/?ns=shown", func(s reflect.Value) func() {
		knowCAS(s)
		facts := at(s, "c", "Driver").Elem().Elem()
		at(facts, "facts", "server").SetString("10.0.0.7:2181")
		at(facts, "facts", "session").SetString("0xdef")
		at(facts, "facts", "failure").SetString("no answer")
		at(facts, "facts", "timeout").SetInt(int64(20 * time.Second))
		at(facts, "facts", "zxid").SetInt(88)
		return func() {}
	}},
	{"files", "", func(reflect.Value) func() { return func() {} }},
}

func knowCAS(store reflect.Value) {
	at(store, "status").Set(reflect.ValueOf(cas.Status{
		Epoch: "e9", Floor: time.Now().UnixMilli() + 12345, Ahead: 1250 * time.Millisecond, Holders: 3,
	}))
}

// TestStoreFigures: all that operators see of a daemon with each store of worker ids that has not answered yet, and
// of one that has; and of sequences that are free, that another daemon leads, that nobody leads and that this one does.
func TestStoreFigures(t *testing.T) {
	for _, s := range shownStores {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
			c := testConfig()
			c.StateDir, c.AnyDisk, c.Counters.Dir = filepath.Join(dir, "state"), true, filepath.Join(dir, "state")
			if s.url != "" {
				c.Store.URL, c.WorkerIDs, c.Lanes, c.StateDir = s.url, nil, 1, ""
				c.Store.Min, c.Store.Max, c.Store.Lease, c.Store.MaxSkew = 1, 9, time.Minute, 2*time.Second
			}
			d, err := New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				d.names.Stop()
				d.windows.Stop(true)
			}()
			compare(t, "store-"+s.name+"-unknown", d.everything(t, dir))
			defer s.know(d.held("store").Elem().Elem())()
			declareSequences(t, d)
			compare(t, "store-"+s.name, d.everything(t, dir))
		})
	}
}

var (
	shownSections = regexp.MustCompile(`<section id="(findings|lanes|names|details)"[^\n]*?</section>`)
	// taken finds what the process takes
	taken = regexp.MustCompile(`(processor|memory|descriptors)( +|</dt>\n<dd>)[^<\n]*`)
	// localTimes finds what depends on the machine's zone
	localTimes = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [-+\w]+|(?m:^)\d\d:\d\d:\d\d `)
)

// declareSequences declares a sequence of each sort. They have different numbers.
func declareSequences(t *testing.T, d *Daemon) {
	t.Helper()
	moment := time.Now().UnixNano()
	k := counter.Status{Left: 1234, Block: 50, DaysLeft: 17.5}
	config := issuer.StrictConfig{
		MaxWait: time.Second, Moment: func() int64 { return moment }, Status: func() counter.Status { return k },
		Ring: func() {}, Wake: func() {},
	}
	kindOf := map[string]issuer.Kind{}
	strict := func(name string) *issuer.Strict {
		config.Definition = counter.Sequence(name)
		config.Definition.Strict = true
		s := issuer.NewStrict(config)
		kindOf[name] = s
		return s
	}
	free := issuer.NewSequence(issuer.SequenceConfig{
		Definition: counter.Sequence("free"), MaxWait: time.Second, Ring: func() {}, Wake: func() {},
		Status: func() counter.Status { return counter.Status{Left: 7, Block: 100, DaysLeft: math.Inf(1)} },
	})
	kindOf["free"] = free
	own := strict("own").Lead(func() int64 { return math.MaxInt64 })
	for _, i := range []counter.Issuer{free, own} {
		if err := i.Append(11, 40); err != nil {
			t.Fatal(err)
		}
	}
	strict("elsewhere").Follow("10.0.0.9:6380")
	strict("nowhere")
	for _, name := range []string{"free", "own", "elsewhere", "nowhere"} {
		d.names.Catalog.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: name}),
			From: kindOf[name]}})
	}
	for range 3 {
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("free"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.names.Catalog.Batch(t.Context(), []byte("own"), 1); err != nil {
		t.Fatal(err)
	}
}

// everything returns all that operators see of a daemon, and masks what varies.
func (d *Daemon) everything(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, group := range []string{"", "settings", "lanes", "leases", "generators"} {
		lines = append(append(lines, "# stats "+group), d.statLines(group)...)
	}
	lines = append(append(lines, "# metrics"), d.metricLines()...)
	d.fitsARegistry(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/readyz", "/", "/html"} {
		lines = append(lines, "# "+target)
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", strings.TrimSuffix(target, "html"), nil)
		if target == "/html" {
			r.Header.Set("Accept", "text/html")
		}
		httpapi.NewServer(d.overHTTP()).Handler.ServeHTTP(w, r)
		text := w.Body.String()
		for _, section := range shownSections.FindAllString(text, -1) {
			text = strings.Replace(section, "<d", "\n<d", -1)
			lines = append(lines, strings.Split(text, "\n")...)
		}
		if target == "/html" {
			break
		}
		lines = append(lines, strings.Split(text, "\n")...)
	}
	text := strings.NewReplacer(dir, "DIR", "host "+host+",", "host VARIES,").Replace(strings.Join(lines, "\n"))
	text = taken.ReplaceAllString(text, "$1 VARIES")
	return strings.Split(localTimes.ReplaceAllString(text, "TIME "), "\n")
}
