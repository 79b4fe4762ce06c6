package imports

import (
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/katsubushi/katsubushi/v3/"

// A rule says what a package may import of ours, or which foreign packages only it may import.
// Patterns are path.Match's.
type rule struct {
	from   string
	may    []string
	reason string
}

var rules = []rule{
	{"id", nil, "a leaf: generators make ids, grammars write them, and both need to know what one is"},
	{"announcement", nil, "a leaf: daemons write it, and the resolvers of clients read it"},
	{"protocol", []string{"id"}, "grammars are bytes in, bytes out: whoever embeds them brings ids and sockets"},
	{"protocol/*", []string{"id", "internal/visible", "protocol"},
		"a grammar knows what all share, and no other grammar"},
	{"client/etcdresolver", []string{"client", "client/internal/announced"},
		"what needs a library is a package of its own"},
	{"client/zkresolver", []string{"client", "client/internal/announced"}, "what needs a library is a package of its own"},
	{"client/internal/announced", []string{"announcement", "client"}, "what daemons announce, for the client"},
	{".", []string{
		"client", "counter", "generator", "id", "internal/clock", "internal/figure", "internal/issuer", "internal/kinds",
		"internal/problem", "internal/windows", "workerid"},
		"the library: whoever imports it gets no client of any store"},
	{"collector", []string{".", "internal/metrics"}, "what needs a library is a package of its own"},
	{"katsubushitest", []string{"generator", "internal/daemon", "internal/stores"},
		"it is a daemon for tests of other programs"},
	{"client", nil, "whoever imports it gets the standard library and nothing else"},
	{"generator", []string{"id"}, "a library of its own: arithmetic on one word, no clock, no lease"},
	{"counter/etcd", []string{
		"counter", "counter/leader", "counter/ledger", "internal/endpoint", "internal/etcdlink"},
		"a store of sequences knows its records and nothing of who issues the values; this one logs in"},
	{"counter/leader", []string{"id"}, "it decides who leads, whatever the store is that records it"},
	{"counter/redis",
		[]string{"counter", "counter/ledger", "counter/redis/line", "internal/problem", "internal/redislink"},
		"a store of sequences knows its records and nothing of who issues the values; this one logs in"},
	{"counter/redis/line", []string{"counter"}, "rules and arithmetic, without I/O"},
	{"counter/sql", []string{
		"counter", "counter/ledger", "internal/endpoint", "internal/problem"},
		"a store of sequences knows its records and nothing of who issues the values; this one logs in"},
	{"counter/ledger", []string{"counter"}, "the rules of sequences, over drivers that it does not know"},
	{"counter/*", []string{"counter", "counter/ledger", "internal/durable"},
		"a store of sequences knows its records and nothing of who issues the values"},
	{"counter", []string{"internal/problem"},
		"sequences and their stores, beside worker ids: values are issued elsewhere"},
	{"workerid", []string{"internal/figure", "internal/problem"},
		"the lease machine decides; generators are published through a callback"},
	{"workerid/redis", []string{"internal/figure", "internal/problem", "internal/redislink", "workerid", "workerid/*"},
		"a store knows the lease's terms and nothing of who uses the ids; this one logs in"},
	{"workerid/redis/script", []string{"workerid"}, "what is said to Redis, without I/O"},
	{"workerid/pool", []string{"workerid"}, "rules, without I/O and without a clock"},
	{"workerid/cas", []string{
		"internal/clock", "internal/endpoint", "internal/figure", "internal/problem",
		"internal/turns", "workerid", "workerid/pool"},
		"it carries the rules out over any driver"},
	{"workerid/zookeeper", []string{
		"internal/endpoint", "internal/figure", "workerid", "workerid/cas", "workerid/pool"},
		"a driver carries calls to a store, and decides nothing"},
	{"workerid/etcd", []string{
		"internal/endpoint", "internal/etcdlink", "internal/figure", "workerid", "workerid/cas", "workerid/pool"},
		"a driver carries calls to a store, and decides nothing"},
	{"workerid/*", []string{"internal/durable", "internal/figure", "workerid"},
		"a store knows the lease's terms and nothing of who uses the ids"},
	{"internal/durable", nil, "files that survive crashes, whatever their records say"},
	{"internal/turns", nil, "calls one after another, whatever is called"},
	{"internal/redislink", []string{"internal/endpoint", "internal/problem", "internal/turns"},
		"connections to Redis, whatever is said over them"},
	{"internal/endpoint", []string{
		"internal/problem", "internal/secretfile"},
		"where a store is, whatever is kept there"},
	{"internal/etcdlink", []string{"internal/endpoint"}, "connections to etcd, whatever is said over them"},
	{"internal/announce", []string{"announcement", "workerid"},
		"it asks other daemons, and is told what is true of this one"},
	{"internal/fleet", []string{"announcement", "internal/announce", "workerid"},
		"what other daemons say of themselves, whoever shows it"},
	{"internal/forward", []string{"protocol"}, "it asks another daemon: it is told the address, the name and the number"},
	{"internal/clock", nil, "the present is an argument everywhere else"},
	{"internal/issuer", []string{"counter", "generator", "id", "internal/figure", "internal/kinds", "internal/latency"},
		"it chooses among generators and knows no grammars, sockets or leases"},
	{"internal/server", []string{"internal/endpoint", "internal/latency", "internal/peers", "internal/problem"},
		"it moves bytes and knows no grammar"},
	{"internal/server/loop", []string{"internal/latency", "internal/peers", "internal/server"},
		"what event loops share, however they wait"},
	{"internal/server/uring", []string{"internal/peers", "internal/server", "internal/server/loop"},
		"an engine knows no other one"},
	{"internal/server/epoll", []string{"internal/peers", "internal/server", "internal/server/loop"},
		"an engine knows no other one"},
	{"internal/server/std", []string{"internal/latency", "internal/peers", "internal/server"},
		"an engine knows no other one; this one has no event loop"},
	{"internal/server/engines",
		[]string{"internal/problem", "internal/server", "internal/server/uring", "internal/server/epoll",
			"internal/server/std"},
		"the table of engines"},
	{"internal/visible", nil, "one rule about what a terminal may be sent, for whoever shows what others said"},
	{"internal/httpapi", []string{
		"id", "internal/events", "internal/figure", "internal/latency", "internal/peers", "internal/users",
		"internal/visible"},
		"it is handed functions, not the daemon"},
	{"internal/grpcapi", []string{
		"id", "internal/peers", "internal/server", "internal/users", "internal/visible", "proto/*"},
		"it is handed functions, not the daemon; its connections count with the engine's"},
	{"proto/*", nil, "generated: what is on the wire"},
	{"internal/adminapi", []string{
		"counter", "id", "internal/kinds", "internal/stores", "internal/users", "internal/visible"},
		"it is handed functions and stores, not the daemon"},
	{"internal/figure", nil, "a leaf: every part of the daemon has figures"},
	{"internal/metrics", []string{"internal/figure", "internal/latency"}, "it reads snapshots that it defines itself"},
	{"internal/latency", nil, "it counts durations, whoever measures them"},
	{"internal/events", nil, "it keeps what is logged, whoever logs"},
	{"docs", nil, "a file of the documentation that the program shows"},
	{"internal/page", []string{
		"docs", "generator", "internal/clients", "internal/endpoint", "internal/figure", "internal/fleet",
		"internal/inspect", "internal/latency"},
		"it shows a view that it defines itself, the fleet, and clients"},
	{"internal/clients", []string{"internal/peers"}, "who is connected, as the kernel says; whoever asks names the ports"},
	{"internal/logqueue", nil, "bytes in, bytes out: whoever logs decides what a line is"},
	{"internal/users", []string{"internal/peers", "internal/secretfile"},
		"who may do what, whoever asks; stores of keys are handed to it"},
	{"internal/loginlimit", []string{"internal/peers"}, "it is handed the comparison of passwords"},
	{"internal/peers", nil, "what a peer is and weighs, whatever the limit is"},
	{"internal/secretfile", nil, "one rule about permissions, for whoever reads a secret"},
	{"internal/stores", []string{
		"counter", "counter/*", "internal/endpoint", "internal/kinds",
		"internal/problem", "workerid", "workerid/*"},
		"the table of stores: nobody above asks which one it is"},
	{"internal/setup", []string{"internal/endpoint"}, "texts of files from answers; it knows no flags"},
	{"internal/inspect", []string{"generator", "id"}, "what an id says, for whoever shows it"},
	{"internal/problem", nil, "one way to say what is wrong, for whoever has settings"},
	{"internal/kinds", []string{"counter", "generator"},
		"it reads definitions, and builds nothing from them; those of sequences are recorded"},
	{"internal/leaserun", []string{"internal/clock", "internal/problem", "workerid"},
		"it keeps a lease for another program, whatever the store"},
	{"internal/control", nil, "how a daemon is found and asked; what it is asked for is its caller's"},
	{"internal/sockets", []string{"internal/problem", "internal/server"}, "where to listen, whoever answers there"},
	{"internal/upgrade", nil, "what two processes say to each other; sockets and ids are the daemon's"},
	{"internal/windows", []string{
		"announcement", "generator", "internal/announce", "internal/clock", "internal/figure", "internal/fleet",
		"internal/issuer", "internal/problem", "workerid", "workerid/static"},
		"the right to issue: it is given what opens a store, and knows neither ports nor names"},
	{"internal/front", []string{
		"id", "internal/figure", "internal/issuer", "internal/latency", "internal/loginlimit", "internal/page",
		"internal/problem", "internal/server", "internal/server/engines", "internal/sockets", "internal/users",
		"protocol", "protocol/*",
	}, "who asks; it is handed what answers, and knows neither windows nor names"},
	{"internal/handover", []string{
		"internal/server", "internal/sockets", "internal/upgrade", "internal/windows", "workerid"},
		"both sides of an upgrade: it is given what moves connections, and what pauses the services"},
	{"internal/services", []string{
		"internal/adminapi", "internal/events", "internal/figure", "internal/grpcapi", "internal/httpapi",
		"internal/problem", "internal/sockets", "internal/users",
	}, "the ports beside the engine's; it is handed what answers"},
	{"internal/names", []string{
		"counter", "counter/leader", "generator", "internal/clock", "internal/figure", "internal/forward",
		"internal/issuer", "internal/kinds", "internal/problem", "internal/stores", "internal/users", "protocol",
	}, "what is declared; it is handed the lanes, and knows neither ports nor windows"},
	{"internal/observe", []string{
		"counter/leader", "generator", "internal/announce", "internal/clients", "internal/events", "internal/figure",
		"internal/fleet",
		"internal/front", "internal/issuer", "internal/metrics", "internal/names", "internal/page", "internal/problem",
		"internal/services", "internal/stores", "internal/windows", "proto/*", "protocol", "protocol/memcache",
		"workerid", "workerid/static",
	}, "what operators see: it asks the other rooms, which do not know it"},
	{"internal/daemon", []string{
		"internal/adminapi", "internal/announce", "internal/endpoint", "internal/events", "internal/forward",
		"internal/front", "internal/grpcapi", "internal/handover", "internal/httpapi", "internal/names",
		"internal/observe", "internal/problem", "internal/secretfile", "internal/services", "internal/sockets",
		"internal/stores", "internal/users", "internal/windows", "protocol", "workerid",
	}, "it alone puts the parts together"},
	{"cmd/katsubushi", []string{
		"counter", "counter/leader", "generator", "internal/clock", "internal/control", "internal/daemon",
		"internal/endpoint", "internal/fleet", "internal/front", "internal/handover", "internal/inspect",
		"internal/kinds", "internal/leaserun", "internal/logqueue", "internal/problem",
		"internal/secretfile", "internal/server", "internal/server/engines", "internal/setup", "internal/sockets",
		"internal/stores", "internal/upgrade", "internal/users", "internal/visible", "internal/windows", "workerid",
		"workerid/*",
	}, "flags and exit codes; what happens is the daemon's"},
	{"bench", nil, "it measures any server; an import of ours could flatter us"},
	{"bench/keys", nil, "it measures databases"},

	// What only tests use. No package above may import any of it.
	{"test/copied", nil, "a tool for tests"},
	{"test/memstore", []string{"workerid"}, "a store in memory, for simulations"},
	{"test/memcas", []string{"internal/figure", "workerid/cas", "workerid/pool"},
		"a store with a compare-and-set in memory, for simulations"},
	{"test/castest", []string{
		"internal/figure", "test/memcas", "test/storetest", "workerid", "workerid/cas", "workerid/pool"},
		"the suite of tests for drivers compares them with the one in memory"},
	{"test/memcounter", []string{"counter", "counter/ledger"}, "a store of sequences in memory, for simulations"},
	{"test/storefaults", []string{
		"test/childprocess", "test/copied", "test/redistest", "workerid", "workerid/cas", "workerid/pool"},
		"the faults that stores with a compare-and-set have in common"},
	{"test/twin", []string{
		"internal/turns", "test/copied", "workerid", "workerid/cas", "workerid/redis", "workerid/redis/script"},
		"it copies what clients of stores remember"},
	{"test/zktest", []string{"test/childprocess", "test/redistest"}, "a tool for tests, with the same namespaces"},
	{"test/followtest", []string{"announcement", "client"}, "the suite of tests for resolvers that follow announcements"},
	{"test/etcdtest", []string{"test/childprocess"}, "a tool for tests"},
	{"test/countertest", []string{"counter", "test/script"}, "the suite of tests for stores of sequences"},
	{"test/redismodel", []string{"workerid", "workerid/redis/script"},
		"what the scripts do, said again in Go: it shares their calls and nothing else"},
	{"test/crashdisk", []string{"internal/durable", "workerid/static"}, "a disk that loses power"},
	{"test/storetest", []string{"generator", "workerid"},
		"the suite of tests for stores issues ids from the windows that they grant"},
	{"test/transcript", []string{"id", "protocol"}, "it talks to grammars as an engine does"},
	{"test/script", nil, "a tool for tests: what it plays is handed to it"},
	{"test/steps", []string{"test/script"}, "a tool for tests: what it calls is handed to it"},
	{"test/section", nil, "a tool for tests: what it compares is handed to it"},
	{"test/systemd", nil, "a tool for tests"},
	{"test/image", nil, "a test: it looks at the image from outside"},
	{"test/unique", nil, "a checker must not share code with what it checks"},
	{"test/faketime", nil, "a tool for tests"},
	{"test/mount", nil, "a tool for tests"},
	{"test/former", nil, "a tool for tests: it must not share code with the daemon that it builds"},
	{"test/selfsigned", nil, "a tool for tests"},
	{"test/tempfile", nil, "a tool for tests"},
	{"test/sqltest", []string{"test/childprocess"}, "a tool for tests"},
	{"test/redistest", []string{"test/childprocess", "test/faketime", "test/selfsigned"}, "a tool for tests"},
	{"test/childprocess", []string{"test/faketime"}, "it runs programs, whatever they are"},
	{"test/daemonrun", []string{"test/childprocess"}, "it runs the daemon, and looks at it from outside"},
	{"test/chaos", nil, "a test: what it finds out is the daemon's doing, seen from outside"},
	{"test/chaos/library", []string{".", "generator", "test/twin", "workerid", "workerid/*"},
		"a program that uses the library, for the tests"},
	{"test/imports", nil, "this test"},
	{"test/portable", nil, "a tool of the Makefile: it reads the sources"},
	{"test/house", nil, "a tool of the Makefile: it reads the sources"},
	{"test/testrun", nil, "a tool of the Makefile: it runs the tests of all others"},
	{"test/sim", []string{
		"generator", "id", "internal/issuer", "test/*", "workerid", "workerid/*"},
		"the real decisions over a model of the world"},
	{"test/explore", []string{
		"counter", "counter/leader", "counter/redis/line", "generator", "id", "internal/durable", "internal/figure",
		"internal/issuer", "internal/kinds", "test/copied", "test/memcas", "test/redismodel", "test/sim",
		"workerid", "workerid/*"},
		"the real decisions in every order, over a model of the world"},
	{"test/scripted", []string{"test/redismodel", "workerid/redis/script"}, "a tool for tests"},
	{"test/seqsim", []string{"counter", "id", "internal/issuer"},
		"the real sequences over a model of the world"},
	{"test/order", []string{"test/unique"}, "a checker must not share code with what it checks"},
	{"test/eventqueue", nil, "a tool for simulations"},
	{"examples/*", []string{".", "client", "workerid/redis"}, "programs as users write them"},
	{"test/docs", nil, "a test: it reads the documentation and types what it says"},
	{"test/orm", nil, "a test: it looks at daemons from outside, as the recipes do"},
	{"test/clients", []string{"test/childprocess", "test/daemonrun", "test/order", "test/selfsigned"},
		"it looks at the daemon from outside, as clients do"},
}

// exclusive names the packages that only some of ours may import.
var exclusive = []rule{
	{"github.com/prometheus/*", []string{"collector", "internal/metrics"},
		"one package knows Prometheus, and one gives a program's registry what that makes; counters are plain elsewhere"},
	{"github.com/redis/go-redis/*", []string{"counter/redis", "internal/redislink", "workerid/redis", "test/redistest",
		"test/scripted"},
		"who records in Redis knows it"},
	{"github.com/go-zookeeper/zk", []string{"client/zkresolver", "workerid/zookeeper", "test/zktest"},
		"one store and one resolver know ZooKeeper"},
	{"github.com/coreos/go-systemd/*", []string{"cmd/katsubushi"}, "only the program has a supervisor"},
	{"go.etcd.io/*", []string{"client/etcdresolver", "internal/etcdlink", "test/etcdtest"},
		"one package of the daemon's and one resolver know etcd's client"},
	{"google.golang.org/grpc/*", []string{"internal/etcdlink", "internal/grpcapi", "proto/*"},
		"one package serves gRPC, beside etcd's client"},
	{"github.com/lib/pq", []string{"counter/sql"}, "one store knows PostgreSQL"},
	{"github.com/go-sql-driver/mysql", []string{"counter/sql"}, "one store knows MySQL"},
	{"database/sql/*", []string{"counter/sql"}, "one store knows SQL"},
	{"golang.org/x/crypto/*", []string{"internal/users"}, "one package knows how passwords are kept"},
	{"github.com/kavu/go_reuseport", []string{"internal/server"}, "one package opens listeners"},
	{"net", []string{
		"announcement", "internal/announce", "internal/control", "internal/fleet", "bench", "client",
		"cmd/katsubushi", "counter/sql", "examples/*", "internal/daemon", "internal/etcdlink",
		"internal/forward", "internal/front", "internal/grpcapi", "internal/httpapi", "internal/redislink", "internal/server",
		"internal/services", "internal/server/loop", "internal/server/std", "internal/sockets", "internal/upgrade",
		"internal/names", "internal/windows",
		"test/chaos/library", "test/childprocess", "test/clients", "test/etcdtest", "test/followtest", "test/redistest",
		"test/selfsigned", "test/sqltest", "test/zktest", "workerid/*",
	}, "grammars, generators and leases do no I/O"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func ours(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok || strings.HasSuffix(p, "/*") && strings.HasPrefix(name, strings.TrimSuffix(p, "*"))
	})
}

func TestImportsGoDownOnly(t *testing.T) {
	list := ours(t)
	if len(list) < 8 {
		t.Fatalf("go list found %d packages", len(list))
	}
	used := map[string]bool{} // patterns by the rules that they stand in
	applies := func(r rule, name string) bool {
		ok := matches([]string{r.from}, name)
		used[r.from] = used[r.from] || ok
		return ok
	}
	permits := func(r rule, name string) bool {
		i := slices.IndexFunc(r.may, func(p string) bool { return matches([]string{p}, name) })
		if i >= 0 {
			used[r.from+" "+r.may[i]] = true
		}
		return i >= 0
	}
	for _, p := range list {
		name := path.Clean(strings.TrimPrefix(p.ImportPath+"/", module)) // "." is the library
		i := slices.IndexFunc(rules, func(r rule) bool { return applies(r, name) })
		if i < 0 {
			t.Errorf("%s: no rule says what it may import: add one, with its reason, and draw it in docs/ARCHITECTURE.md", name)
			continue
		}
		for _, imp := range p.Imports {
			of, ok := strings.CutPrefix(imp+"/", module)
			if of = path.Clean(of); ok && !permits(rules[i], of) {
				t.Errorf("%s imports %s: %s", name, of, rules[i].reason)
			}
			for _, x := range exclusive {
				if applies(x, imp) && !permits(x, name) {
					t.Errorf("%s imports %s: %s", name, imp, x.reason)
				}
			}
		}
	}
	for _, r := range slices.Concat(rules, exclusive) {
		if runtime.GOOS != "linux" { // elsewhere less is imported
			break
		}
		if !used[r.from] {
			t.Errorf("a rule for %s, and no such package", r.from)
		}
		for _, p := range r.may {
			if !used[r.from+" "+p] {
				t.Errorf("the rule for %s says %s, which nothing needs", r.from, p)
			}
		}
	}
}

// TestClientImportsTheStandardLibraryAlone: a program that imports client compiles nothing else.
func TestClientImportsTheStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"client").
		Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != module+"client" {
		t.Errorf("error %v, packages outside of the standard library:\n%s", err, got)
	}
}

// TestWindowsLinkNoStore: a program that leases worker ids links the client of its own store alone.
func TestWindowsLinkNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		module+"internal/windows").Output()
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, module) && !strings.HasPrefix(name, "golang.org/x/sys/") {
			t.Errorf("internal/windows links %s", name)
		}
	}
	if err != nil || len(out) == 0 {
		t.Error(err)
	}
}

// TestNothingCallsMethodsByName: text/template calls methods by their names, so the linker keeps every
// method of a program that imports it. make build leaves out the one package that does.
func TestNothingCallsMethodsByName(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", module+"cmd/katsubushi").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if name == "text/template" {
			t.Errorf("the program imports %s, which makes it 9 MB larger", name)
		}
	}
}
