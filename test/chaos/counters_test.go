//go:build chaos && linux

package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// counterStores start a store of sequences each, and return its URL. strict: it also keeps order=strict.
var counterStores = []struct {
	name   string
	strict bool
	start  func(t *testing.T) string
}{
	{"file", true, func(t *testing.T) string { return "file://" + t.TempDir() }},
	{"etcd", true, func(t *testing.T) string { return etcdtest.URL(t, etcdtest.Start(t)) }},
	{"Redis", false, func(t *testing.T) string {
		return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always").URL()
	}},
	{"PostgreSQL", false, func(t *testing.T) string {
		return "postgres://postgres@/postgres?socket=" + sqltest.Postgres(t).Socket
	}},
	{"MariaDB", false, func(t *testing.T) string { return "mysql://root@/test?socket=" + sqltest.MariaDB(t).Socket }},
	{"Leaf", false, func(t *testing.T) string {
		s := sqltest.MariaDB(t)
		s.Do(t, "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint NOT NULL DEFAULT '1', "+
			"step int NOT NULL, description varchar(256) DEFAULT NULL, update_time timestamp NOT NULL DEFAULT "+
			"CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB")
		return "mysql://root@/test?layout=leaf&socket=" + s.Socket
	}},
}

// A tally is what clients got of one sequence.
type tally struct {
	mu     sync.Mutex
	values map[uint64]string // the daemon that issued it
	by     map[string]int    // how many, by its build
	most   uint64
	twice  int
}

func newTally() *tally { return &tally{values: map[uint64]string{}, by: map[string]int{}} }

// timestamps is a name of timestamps. A build that does not know them refuses it, see TestSequencesOfTwoVersions.
const timestamps = "timestamps"

// TestSequencesOfTwoVersions: daemons of two builds share the sequences of each kind of store, and are replaced by
// the other build again and again, after a clean stop or kill -9. No value comes twice. Each kind gets a sixth of
// the time. In etcd there are timestamps too, made while daemons of both builds run: this tree's serve them beside
// daemons that refuse them.
func TestSequencesOfTwoVersions(t *testing.T) {
	builds := versions(t)
	if len(builds) == 1 {
		t.Skip("KATSUBUSHI_CHAOS_OLD names no revision: make mixed OLD=...")
	}
	length, seed := settingsOf(t)
	for _, store := range counterStores {
		t.Run(store.name, func(t *testing.T) {
			url := store.start(t)
			names := []string{"orders"}
			createSequence(t, builds[0], url, "orders sequence batch=20")
			if store.strict {
				names = append(names, "strict")
				createSequence(t, builds[0], url, "strict sequence batch=20 order=strict")
			}
			shareSequences(t, builds, url, names, length/time.Duration(len(counterStores)), seed)
		})
	}
}

// createSequence defines a sequence, and the table if there is none.
func createSequence(t *testing.T, v version, url, definition string) {
	t.Helper()
	create := func() (string, error) {
		out, err := exec.Command(v.path, "generator", "create", definition, "-counters", url,
			"-state-any-disk").CombinedOutput()
		return string(out), err
	}
	out, err := create()
	if _, statement, ok := strings.Cut(out, "This makes it:\n"); ok {
		kind, program := "mariadb", []string{"mariadb", "--no-defaults", "-u", "root", "test", "--socket="}
		_, socket, _ := strings.Cut(url, "socket=")
		if strings.HasPrefix(url, "postgres") {
			kind, program = "psql", []string{"psql", "-q", "-U", "postgres", "-h", ""}
		}
		program[len(program)-1] += socket
		c := exec.Command(program[0], program[1:]...)
		c.Stdin = strings.NewReader(statement)
		if made, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", kind, err, made)
		}
		out, err = create()
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func shareSequences(t *testing.T, builds []version, url string, names []string, length time.Duration, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	tallies := map[string]*tally{}
	for _, name := range names {
		tallies[name] = newTally()
	}
	done := make(chan struct{})
	var clients sync.WaitGroup
	daemons := startSharing(t, builds, url)
	if strings.HasPrefix(url, "etcd") {
		createSequence(t, builds[1], url, timestamps+" snowflake layout=katsubushi order=strict node=1023")
		names, tallies[timestamps] = append(names, timestamps), newTally()
		for _, d := range daemons { // before it has learnt of them, they are a key like any other
			redistest.Until(t, d.name+" knows of the timestamps", func() bool { return refuses(d, builds[0]) || serves(d) })
		}
	}
	for _, d := range daemons {
		for range clientsEach {
			clients.Go(func() { countFrom(t, d, names, tallies, done) })
		}
	}
	began, swaps := time.Now(), map[string]int{}
	const patience = 5 * time.Minute // on a busy machine
	for time.Since(began) < length || time.Since(began) < length+patience && !byAll(tallies, builds) {
		time.Sleep(time.Second + time.Duration(rnd.Int64N(int64(2*time.Second)))) // the load of this life
		d := daemons[rnd.IntN(len(daemons))]
		signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[rnd.IntN(2)]
		swap(d, signal)
		swaps[signal.String()]++
	}
	mixed(daemons, builds)
	before := map[string]int{}
	for name, tally := range tallies { // whoever runs now goes on
		tally.mu.Lock()
		before[name] = len(tally.values)
		tally.mu.Unlock()
	}
	for name, tally := range tallies {
		redistest.Until(t, name+" goes on", func() bool {
			tally.mu.Lock()
			defer tally.mu.Unlock()
			return len(tally.values) > before[name]+100
		})
	}
	for _, d := range daemons {
		if d.version() == builds[0] && tallies[timestamps] != nil {
			redistest.Until(t, d.name+" refuses timestamps", func() bool { return refuses(d, builds[0]) })
		}
	}
	close(done)
	clients.Wait()
	for name, tally := range tallies {
		t.Logf("%s: %d values, %d twice; of %v; daemons replaced: %v", name, len(tally.values), tally.twice, tally.by, swaps)
	}
	if !byAll(tallies, builds) {
		t.Error("not every build has issued values of every name that it knows, and only of those")
	}
}

// byAll reports whether all builds have issued some of each name, but of timestamps only the newest one.
func byAll(tallies map[string]*tally, builds []version) bool {
	for name, tally := range tallies {
		tally.mu.Lock()
		by := len(tally.by)
		tally.mu.Unlock()
		if name != timestamps && by != len(builds) || name == timestamps && by != 1 {
			return false
		}
	}
	return true
}

// swap ends a daemon, and starts its other version. In between it has no place, for both have the same port.
func swap(d *daemon, signal syscall.Signal) {
	d.end(signal)
	d.at.Store(nil)
	d.start()
}

// mixed sees to it that daemons of both builds run.
func mixed(daemons []*daemon, builds []version) {
	for _, v := range builds {
		if !slices.ContainsFunc(daemons, func(d *daemon) bool { return d.version() == v }) {
			swap(daemons[0], syscall.SIGTERM)
		}
	}
}

// ask returns what a daemon answers to a get of timestamps: an id, or 0 and why not.
func ask(d *daemon) (v uint64, why string) {
	place := d.at.Load()
	if place == nil {
		return 0, "it is starting"
	}
	conn, err := net.Dial("tcp", place.address)
	if err != nil {
		return 0, err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "get %s\r\n", timestamps)
	values, err := answer(bufio.NewReader(conn), nil)
	if len(values) == 0 {
		return 0, fmt.Sprint(err)
	}
	return values[0], ""
}

// refuses reports whether a daemon of a build refuses timestamps by kind: as a sequence that is retired.
func refuses(d *daemon, v version) bool {
	_, why := ask(d)
	return d.version() == v && strings.Contains(why, timestamps+" is retired")
}

// serves reports whether a daemon answers timestamps, all of which have the node 1023.
func serves(d *daemon) bool {
	v, _ := ask(d)
	return v>>12&1023 == 1023
}

// startSharing starts three daemons of builds in turn.
func startSharing(t *testing.T, builds []version, url string) (daemons []*daemon) {
	for i := range 3 {
		address := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
		_, port, _ := strings.Cut(address, ":")
		d := &daemon{t: t, name: fmt.Sprint("daemon ", i), versions: builds, first: i, args: []string{
			"-bind", "127.0.0.1", "-port", port, "-log-format", "json", "-worker-id", fmt.Sprint(i + 1),
			"-state-dir", filepath.Join(t.TempDir()), "-state-any-disk", "-claim", "off", "-counters", url,
			"-max-wait", "3s",
		}}
		d.cleanUp()
		d.start()
		daemons = append(daemons, d)
	}
	return daemons
}

// countFrom is a client that asks one daemon for the next values of all names.
func countFrom(t *testing.T, d *daemon, names []string, tallies map[string]*tally, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond): // or it is starting
		}
		place := d.at.Load()
		if place == nil {
			continue
		}
		conn, err := net.Dial("tcp", place.address)
		if err != nil {
			continue
		}
		if d.at.Load() == place { // or it may be the next one's by now
			askInTurn(t, conn, place, names, tallies, done)
		}
		conn.Close()
	}
}

func askInTurn(t *testing.T, conn net.Conn, place *place, names []string, tallies map[string]*tally,
	done chan struct{}) {
	r, last := bufio.NewReader(conn), map[string]uint64{}
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(pace):
		}
		name := names[n%len(names)]
		all := tallies[name]
		all.mu.Lock()
		most := all.most
		all.mu.Unlock()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := fmt.Fprintf(conn, "get %s\r\n", name); err != nil {
			return
		}
		values, err := answer(r, nil)
		switch refused := refusal(""); {
		case errors.As(err, &refused):
			continue
		case err != nil || len(values) != 1:
			return
		}
		v := values[0]
		all.mu.Lock()
		if who, ok := all.values[v]; ok {
			all.twice++
			t.Errorf("%s: %d of %s, which %s has issued", name, v, place.name, who)
		}
		if v <= last[name] || name == "strict" && v <= most || name == timestamps && (v <= most || v>>12&1023 != 1023) {
			t.Errorf("%s: %d of %s, after %d, and after %d that others had got", name, v, place.name, last[name], most)
		}
		who := place.name[strings.Index(place.name, ", ")+2 : strings.LastIndex(place.name, ", ")]
		all.by[who]++
		all.values[v] = who
		all.most = max(all.most, v)
		all.mu.Unlock()
		last[name] = v
	}
}
