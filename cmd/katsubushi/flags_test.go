package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

func environment(pairs ...string) variables {
	env := variables{}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// TestSettings: flags begin with a dash, and variables stand between commas. The fields of the settings are compared as
// they are printed.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, flags, env, fields, want string }{
		{"kayac's defaults: port", "", "", "Port", "11212"},
		{"kayac's defaults: idle", "", "", "IdleTimeout", "10m0s"},
		{"worker id 0 is an id", "-worker-id=0", "", "WorkerIDs", "[0]"},
		{"lanes as a range", "-worker-id=1-4", "", "WorkerIDs", "[1 2 3 4]"},
		{"lanes as a list", "-worker-id=1,5,9-10", "", "WorkerIDs", "[1 5 9 10]"},
		{"kayac's variable", "", "WORKER_ID=7", "WorkerIDs", "[7]"},
		{"in lower case", "", "worker_id=7", "WorkerIDs", "[7]"},
		{"kayac's with our prefix", "", "KATSUBUSHI_WORKER_ID=7", "WorkerIDs", "[7]"},
		{"all forms that say the same", "", "KATSUBUSHI_PORT=1, PORT=1, port=1", "Port", "1"},
		{"empty means not set", "", "KATSUBUSHI_PORT=, PORT=, port=2", "Port", "2"},
		{"BIND stands beside PORT", "", "BIND=127.0.0.1", "Bind", "127.0.0.1"},
		{"Kubernetes has a service of our name", "", "KATSUBUSHI_PORT=tcp://10.3.2.1:11212, HTTP_PORT=tcp://10.3.2.9:80",
			"Port HTTPPort", "11212 8081"},
		{"and the port is set", "", "KATSUBUSHI_PORT=tcp://10.3.2.1:11212, PORT=2", "Port", "2"},
		{"a flag beats two variables that differ", "-port=3", "KATSUBUSHI_PORT=1, PORT=2", "Port", "3"},
		{"a flag beats the environment", "-port=3", "PORT=1", "Port", "3"},
		{"our variables have a prefix", "", "KATSUBUSHI_LOOPS=3, LOOPS=4", "Loops", "3"},
		{"plain seconds", "-idle-timeout=90", "", "IdleTimeout", "1m30s"},
		{"bytes", "-max-buffer-memory=67108864", "", "MaxBufferMemory", "67108864"},
		{"bytes with a unit", "-max-buffer-memory=64MiB", "", "MaxBufferMemory", "67108864"},
		{"bytes with a letter", "", "KATSUBUSHI_MAX_BUFFER_MEMORY=2g", "MaxBufferMemory", "2147483648"},
		{"no limit", "-max-buffer-memory=0", "", "MaxBufferMemory", "0"},
		{"as much as the control group allows", "", "", "MaxBufferMemory", fmt.Sprint(front.DefaultBufferMemory())},
		{"never", "-idle-timeout=0", "", "IdleTimeout", "0s"},
		{"datagrams", "", "KATSUBUSHI_UDP_PORT=11212", "UDPPort", "11212"},
		{"no datagrams", "", "", "UDPPort", "0"},
		{"advertised", "-advertise=ids.example:11212", "", "Advertise", "ids.example:11212"},
		{"octal", "-sock-mode=0777", "", "SockMode", "-rwxrwxrwx"},
		{"bare bool", "-enable-pprof", "", "EnablePprof", "true"},
		{"a debug port alone", "", "DEBUG_PORT=8080", "EnablePprof EnableStats", "true true"},
		{"half a debug port", "-debug-port=8080 -enable-stats", "", "EnablePprof EnableStats", "false true"},
		{"no debug port", "-debug-port=0", "", "EnablePprof", "false"},
		{"the older name", "-max-wait=3s", "", "MaxWait", "3s"},
		{"the newer name", "", "KATSUBUSHI_SEQUENCE_WAIT=3s", "MaxWait", "3s"},
		{"bool variable", "", "ENABLE_STATS=1", "EnableStats", "true"},
		{"kayac's unset values", "-min-worker-id=0 -grpc-port=0", "", "problems", "[]"},
		{"gRPC", "-grpc-port=11213", "", "GRPCPort", "11213"},
		{"gRPC, kayac's variable", "", "GRPC_PORT=11213", "GRPCPort", "11213"},
		{"a layout by name", "-layout=sonyflake", "", "Layout", "sonyflake"},
		{"a layout of one's own",
			"-epoch=2020-01-01T00:00:00Z -worker-bits=8 -sequence-bits=10 -time-unit=10ms", "",
			"Layout", "epoch=1577836800000;unit=10ms;bits=45/8/10;order=time,worker,sequence"},
		{"the epoch of Unix time", "-epoch=0", "", "Layout.Epoch", "0"},
		{"the least epoch in milliseconds", "-epoch=100000000000", "", "Layout.Epoch", "100000000000"},
		{"one worker id, said twice", "-worker-id=7 -worker-id=7", "", "WorkerIDs", "[7]"},
		{"a port given twice", "-port=7 -port=8", "", "Port", "8"},
		{"an epoch alone", "", "KATSUBUSHI_EPOCH=1500000000000", "Layout.Epoch", "1500000000000"},
		{"Twitter's datacenters", "-layout=twitter -datacenter-id=3 -worker-id=4,31", "", "WorkerIDs", "[100 127]"},
		{"systemd's state directory", "", "STATE_DIRECTORY=/var/lib/a:/var/lib/b", "StateDir", "/var/lib/a"},
		{"the state directory by default", "", "XDG_STATE_HOME=/x, HOME=/h",
			"StateDir StateDirByDefault notes", "/x/katsubushi true []"},
		{"that of a home", "", "HOME=/h", "StateDir StateDirByDefault notes", "/h/.local/state/katsubushi true []"},
		{"a relative XDG_STATE_HOME is ignored", "", "XDG_STATE_HOME=x, HOME=/h",
			"StateDir StateDirByDefault notes", "/h/.local/state/katsubushi true []"},
		{"no home", "", "", "StateDir StateDirByDefault notes", " true []"},
		{"systemd's beats the default", "", "STATE_DIRECTORY=/s, XDG_STATE_HOME=/x",
			"StateDir StateDirByDefault notes", "/s false []"},
		{"an empty flag is the default", "-state-dir=", "HOME=/h",
			"StateDir StateDirByDefault notes", "/h/.local/state/katsubushi true []"},
		{"no state directory", "-state-dir=none", "STATE_DIRECTORY=/s, HOME=/h",
			"StateDir StateDirByDefault notes", " false []"},
		{"no state directory, by the environment", "", "KATSUBUSHI_STATE_DIR=none, HOME=/h",
			"StateDir StateDirByDefault notes", " false []"},
		{"none by default with Redis", "-redis=redis://h/0", "HOME=/h", "StateDir StateDirByDefault notes", " false []"},
		{"ours beats systemd's", "", "STATE_DIRECTORY=/a, KATSUBUSHI_STATE_DIR=/b", "StateDir", "/b"},
		{"the claim is on", "", "", "Claim", "true"},
		{"kayac's unset worker id beside -redis", "-worker-id=0 -redis=redis://h/0", "", "WorkerIDs", "[]"},
		{"kayac's unset range", "-redis=redis://h/0", "MIN_WORKER_ID=0, MAX_WORKER_ID=0", "Store.Min Store.Max", "1 1023"},
		{"the range is the layout's", "-redis=redis://h/0 -layout=js53", "", "Store.Max", "31"},
		{"random start", "-sequence-start=random", "", "RandomStart", "true"},
		{"HTTP's own address", "", "KATSUBUSHI_HTTP_BIND=::1", "HTTPBind", "::1"},
		{"the page by default", "", "", "HTTPBind HTTPPort HTTPByDefault", "127.0.0.1 8081 true"},
		{"no page", "-http-port=0", "", "HTTPBind HTTPPort HTTPByDefault", " 0 false"},
		{"no page, as kayac says it", "", "HTTP_PORT=0", "HTTPBind HTTPPort HTTPByDefault", " 0 false"},
		{"HTTP everywhere", "", "http_port=8081", "HTTPBind HTTPPort HTTPByDefault", " 8081 false"},
		{"an address without a port", "-http-bind=10.0.0.1", "", "HTTPBind HTTPPort HTTPByDefault", "10.0.0.1 0 true"},
		{"the page's port is another's", "-grpc-port=8081", "", "HTTPBind HTTPPort HTTPByDefault", "127.0.0.1 0 true"},
		{"the debug port has it", "-debug-port=8081 -enable-stats", "",
			"HTTPBind HTTPPort HTTPByDefault", "127.0.0.1 0 true"},
		{"the debug port is off", "-debug-port=8081 -enable-stats=false", "",
			"HTTPBind HTTPPort HTTPByDefault", "127.0.0.1 8081 true"},
		{"the admin port's address", "-admin-port=8082", "KATSUBUSHI_ADMIN_BIND=10.0.0.1",
			"AdminPort AdminBind", "8082 10.0.0.1"},
		{"a limit that was given stays", "-http-port=8081 -max-connections=100", "", "MaxConnections", "100"},
		{"generators, one a flag", "-generator=a uuid4 -generators=/names -generator=b snowflake",
			"KATSUBUSHI_GENERATOR=c uuid4", "Definitions DefinitionsFile", "a uuid4\nb snowflake /names"},
		{"generators, up to an empty flag", "-generator=a uuid4 -generator= -generator=b snowflake", "",
			"Definitions", "b snowflake"},
		{"generators of the environment", "", "KATSUBUSHI_GENERATOR=a uuid4; b uuid7, KATSUBUSHI_GENERATORS=/names",
			"Definitions DefinitionsFile", "a uuid4; b uuid7 /names"},
		{"names, one a flag", "-name=a uuid4 -names=/names -name=b snowflake", "KATSUBUSHI_NAME=c uuid4",
			"Definitions DefinitionsFile", "a uuid4\nb snowflake /names"},
		{"names of the environment", "", "KATSUBUSHI_NAME=a uuid4; b uuid7, KATSUBUSHI_NAMES=/names",
			"Definitions DefinitionsFile", "a uuid4; b uuid7 /names"},
		{"unknown keys get ids", "", "", "RefuseUnknown", "false"},
		{"unknown keys are refused", "-unknown-keys=refuse", "", "RefuseUnknown", "true"},
		{"VERSION is not a setting", "", "VERSION=true", "Version", ""},
	} {
		p := settingsOf(t, c.flags, c.env)
		var got []string
		for path := range strings.FieldsSeq(c.fields) {
			v := reflect.ValueOf(p).Elem()
			for name := range strings.SplitSeq(path, ".") {
				v = v.FieldByName(name)
			}
			got = append(got, fmt.Sprint(v))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// settingsOf reads settings in which nothing is wrong.
func settingsOf(t *testing.T, flags, env string) *parsed {
	t.Helper()
	var args []string
	for _, flag := range strings.Split(" "+flags, " -")[1:] {
		args = append(args, "-"+flag)
	}
	set := variables{}
	for _, pair := range strings.Split(env, ", ") {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	p, _, err := parse(settings, args, set, nil)
	if err != nil || len(p.problems) > 0 {
		t.Errorf("%s %s: %v %v", flags, env, err, p.problems)
	}
	return p
}

// TestTheMostWorkerIDs: the largest one, and the longest range.
func TestTheMostWorkerIDs(t *testing.T) {
	if p := settingsOf(t, "-worker-id=1023", ""); p.Validate() != nil || !slices.Equal(p.WorkerIDs, []uint64{1023}) {
		t.Errorf("%v: %v", p.WorkerIDs, p.Validate())
	}
	if p := settingsOf(t, "-worker-id=0-1023", ""); len(p.WorkerIDs) != 1024 {
		t.Errorf("%d worker ids", len(p.WorkerIDs))
	}
}

// TestDescriptorsAreLeft for the admin port, and for HTTP.
func TestDescriptorsAreLeft(t *testing.T) {
	for _, port := range []string{"-admin-port=8082", "-http-port=8081"} {
		p := settingsOf(t, port, "")
		if p.MaxConnections+p.Services.Descriptors(p.MaxConnections) > max(openFiles()-64, 80) ||
			p.AdminPort > 0 && p.Services.Descriptors(100) != 48+64 {
			t.Errorf("%s: %d connections, and %d descriptors", port, p.MaxConnections, p.Services.Descriptors(p.MaxConnections))
		}
	}
}

// TestAnEmptyFlagIsNotSet: whichever it is, the environment counts, then the default; nothing
// complains of a value that nobody gave.
func TestAnEmptyFlagIsNotSet(t *testing.T) {
	t.Parallel()
	for _, list := range []func(*options) []setting{settings, runSettings} {
		set := environment()
		var empty, later []string
		for _, s := range list(new(options)) {
			set["KATSUBUSHI_"+strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))] = "17"
			empty = append(empty, "-"+s.name+"=")
			later = append(later, "-"+s.name+"=18", "-"+s.name+"=") // the last one counts
		}
		for _, env := range []variables{environment(), set} {
			want, _, _ := parse(list, []string{}, env, nil)
			for _, args := range [][]string{empty, later} {
				if got, _, err := parse(list, args, env, nil); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%q: %v\n%+v, without them\n%+v", args, err, got, want)
				}
			}
		}
	}
}

func TestBytesThatAreNone(t *testing.T) {
	for _, value := range []string{"much", "-1", "64MB", "64ib", "64mm", "64kib4", "1.5g", "9223372036854775808",
		"8388608t", "m", "64 m", "0x10"} {
		p, _, err := parse(settings, []string{"-max-buffer-memory", value}, environment(), nil)
		if err != nil || len(p.problems) != 1 ||
			!strings.Contains(p.problems[0].Error(), "such as 67108864, 64MiB or 256m is allowed") {
			t.Errorf("%s: %v %v, %d bytes", value, err, p.problems, p.MaxBufferMemory)
		}
	}
}

func TestAllProblemsAreToldAtOnceInTheUsersWords(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run([]string{"-worker-id=1,2000,1", "-port", "99999", "-bind=10.0.0.1:1", "-http-bind=[::1]", "-admin-bind=:1",
		"-admin-port=5", "-max-run-ahead=soon", "-http-port=-1", "-grpc-port=65536", "-datacenter-id=1", "-time-unit=1.5ms",
		"-redis=redis://h/0", "-lease=3s", "-lanes=65", "-max-buffer-memory=3m"},
		environment("KATSUBUSHI_SOCK_MODE", "rwx", "idle_timeout", "-5s", "LOG_LEVEL", "loud", "KATSUBUSHI_LOOPS", "0"),
		&stdout, &stderr)
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"-bind: \"10.0.0.1:1\": an address or a name without a port is allowed",
		"-http-bind: \"[::1]\": an address or a name without a port is allowed",
		"-admin-bind: \":1\": an address or a name without a port is allowed",
		"-admin-port: there are no users, and one with the right admin is needed: -auth-file or -auth-store says where " +
			"they are",
		"-worker-id: 2000: 0 to 1023 allowed",
		"-worker-id: 1 is there twice",
		"-port: 99999: 0 to 65535 allowed",
		"-max-run-ahead=soon: a duration such as",
		"-http-port: -1: 0 to 65535 allowed",
		"-grpc-port: 65536: 0 to 65535 allowed",
		"-datacenter-id: only the twitter layout has one",
		"-time-unit=1.5ms: whole milliseconds",
		"-worker-id: with -redis worker ids are leased, not given",
		"-lease: 3s is too short",
		"-lanes: 65: 1 to 64 allowed",
		"-max-buffer-memory: 3145728 bytes: 4 MiB to 1024 GiB allowed, or 0 for no limit",
		"KATSUBUSHI_SOCK_MODE=rwx: octal permissions",
		"idle_timeout: -5s: 0s to",
		"LOG_LEVEL=loud: debug, info",
		"KATSUBUSHI_LOOPS: 0: 1 to 1024 allowed",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if t.Failed() {
		t.Log(stderr.String())
	}
}

// A layout that does not exist hides nothing that is wrong with names.
func TestAWrongNameBesideAWrongLayout(t *testing.T) {
	var stderr bytes.Buffer
	code := run([]string{"-worker-id=1", "-state-dir=none", "-layout=nosuch", "-generator=a nosuch", "-generator=b uuid7"},
		environment(), nil, &stderr)
	text := stderr.String()
	if code != exitUsage || !strings.Contains(text, "-layout=nosuch: ") || !strings.Contains(text, "-generator: ") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestSpinOff: nothing and no time are off.
func TestSpinOff(t *testing.T) {
	for _, v := range []string{"off", "0", "0s"} {
		o := &options{}
		o.Spin = time.Second
		if err := o.setSpin(v); err != nil || o.Spin != 0 {
			t.Errorf("%s: %v, %v", v, o.Spin, err)
		}
	}
}

// TestSingleSettingsThatAreRefused: each value is wrong by itself, and the text says what is right.
func TestSingleSettingsThatAreRefused(t *testing.T) {
	const worker = "a worker id such as 7, a range such as 1-4, a list such as 1,5,9 or ordinal is allowed"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-epoch=1420070400"}, "-epoch=1420070400: a number is Unix milliseconds, and this one is " +
			"1970-01-17T10:27:50Z: 2015-01-01T00:00:00Z was probably meant"},
		{[]string{"-epoch=2015"}, "-epoch=2015: a number is Unix milliseconds, and this one is " +
			"1970-01-01T00:00:02Z: 2015-01-01T00:00:00Z was probably meant"},
		{[]string{"-epoch=1"}, "1970-01-01T00:00:01Z was probably meant"},
		{[]string{"-epoch=99999999999"}, "5138-11-16T09:46:39Z was probably meant"},
		{[]string{"-epoch=yesterday"}, "a time such as 2015-01-01T00:00:00Z, or Unix milliseconds, allowed"},
		{[]string{"-worker-id=x-3"}, worker},
		{[]string{"-worker-id=3-x"}, worker},
		{[]string{"-worker-id=3-1"}, worker},
		{[]string{"-worker-id=-3"}, worker},
		{[]string{"-worker-id=1-1025"}, "-worker-id=1-1025: a range has at most 1024 worker ids"},
		{[]string{"-worker-id=1", "-worker-id=2"},
			"-worker-id: 1 was given before: one flag has them all, such as 1,5,9"},
		{[]string{"-spin=20"}, "-spin=20: auto, off or a duration such as 20us allowed"},
		{[]string{"-spin=-20us"}, "-spin=-20us: auto, off or a duration such as 20us allowed"},
		{[]string{"-spin=2ms"}, "-spin: 2ms: 0s to 1ms allowed"},
	} {
		got := complaints(t, append(c.args, "-loops=0"))
		if !strings.Contains(got, c.want) || !strings.Contains(got, "-loops: 0") {
			t.Errorf("%q: %s", c.args, got)
		}
	}
}

// What no clock can excuse: a time field that ended before this program was written, or an epoch
// that nobody lives to see.
func TestATimeFieldThatCannotHoldThePresentIsRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-epoch=1420070400000000", "-epoch: no id can be issued: the time field begins at 46970-03-29T00:00:00Z"},
		{"-epoch=1900-01-01T00:00:00Z", "-epoch: no id can be issued: the time field ended at 1969-09-07T15:47:35Z"},
		{"-sequence-bits=42", "-sequence-bits: no id can be issued: the time field ended at 2015-01-01T00:00:02Z"},
	} {
		if got := complaints(t, []string{"-worker-id=1", "-loops=0", c.args}); !strings.Contains(got, c.want) ||
			!strings.Contains(got, "-loops: 0") {
			t.Errorf("%s: %s", c.args, got)
		}
	}
}

func TestProblemsOfFilesAreToldWithTheOthers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	cert, key, other := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	for _, k := range []string{key, other} { // the first key is not the certificate's
		if _, err := selfsigned.Write(cert, k, 1); err != nil {
			t.Fatal(err)
		}
	}
	absent, nonsense, public := filepath.Join(dir, "absent"), file("nonsense", "nonsense"), file("public", "ann:secret")
	os.Chmod(public, 0o644)
	_, isAbsent := os.Open(absent)
	_, noInfo := os.Stat(absent) // the file of users is looked at first
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-tls-cert", absent, "-tls-key", absent, "-tls-client-ca", absent, "-auth-file", absent},
			"-tls-cert: ABSENT\n-tls-key: ABSENT\n-tls-client-ca: ABSENT\n-auth-file: ABSENT\n"},
		{[]string{"-tls-cert", nonsense, "-tls-key", key, "-tls-client-ca", nonsense, "-auth-file", nonsense},
			"-tls-cert: NONSENSE: with the key DIR/key: tls: failed to find any PEM data in certificate input\n" +
				"-tls-client-ca: NONSENSE: no certificate is in it\n-auth-file: NONSENSE: line 1: user:password expected\n"},
		{[]string{"-state-dir", nonsense, "-counters", "file://" + filepath.Join(nonsense, "below"), "-auth-file", dir},
			"-state-dir: NONSENSE is not a directory\n" +
				"-counters: stat NONSENSE/below: not a directory\n-auth-file: DIR: a directory, not a file\n"},
		{[]string{"-tls-cert", cert, "-tls-key", key},
			"-tls-cert: DIR/cert: with the key DIR/key: tls: private key does not match public key\n"},
		{[]string{"-tls-cert", cert, "-tls-key", public, "-auth-file", public},
			"-tls-key: DIR/public: mode 0644 lets others use the secret in it: chmod 600 it\n-auth-file: DIR/public: mode " +
				"0644 lets"},
	} {
		got := complaints(t, append(c.args, "-worker-id=1", "-loops=0"))
		got = strings.NewReplacer(isAbsent.Error(), "ABSENT", noInfo.Error(), "ABSENT", nonsense, "NONSENSE", dir, "DIR").
			Replace(got)
		if !strings.Contains(got, c.want) || !strings.Contains(got, "-loops: 0: 1 to 1024 allowed") {
			t.Errorf("%q: %s\nand not\n%s", c.args, got, c.want)
		}
	}
}

// complaints are what is printed about settings that cannot be right.
func complaints(t *testing.T, args []string, env ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	if code := run(args, environment(env...), &stderr, &stderr); code != exitUsage {
		t.Errorf("%q: exit code %d", args, code)
	}
	return stderr.String()
}

func TestProblemsOfGeneratorsAreToldWithTheirLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(file, []byte("# names\nb snowflake\na snowflake\nid snowflake\nb sequence step=0"),
		0o644); err != nil {
		t.Fatal(err)
	}
	want := `-generator: "c snowflake start=1": "start=1": snowflake has the options layout= order= node= ahead=
-generator: "d": "d": a kind must follow the name: snowflake, sequence, uuid4, uuid7, ulid, objectid allowed
-generators: line 3: "a" is declared already, by "a snowflake"
-generators: line 4: the name "id": id, and names of digits alone, stand for the default kind
-generators: line 5: "step=0": 1 to 9223372036854775807 allowed
-generators: line 5: "b" is declared already, by line 2
`
	args := []string{"-worker-id=1", "-loops=0", "-unknown-keys=ignore", "-generators", file}
	got := complaints(t, append(args, "-generator=a snowflake", "-generator", "c snowflake start=1", "-generator=d"))
	if !strings.Contains(got, want) || !strings.Contains(got, "-loops: 0: 1 to 1024 allowed") ||
		!strings.Contains(got, "-unknown-keys=ignore: refuse or issue allowed") {
		t.Errorf("%s\nand not\n%s", got, want)
	}
	nowhere := `-generator: "orders sequence": there is no place to record it: give -state-dir DIRECTORY or ` +
		`-counters file:///DIRECTORY`
	if got := complaints(t,
		[]string{"-worker-id=1", "-state-dir=none", "-generator=orders sequence", "-loops=0"}); !strings.Contains(got,
		nowhere) || !strings.Contains(got, "-loops: 0") {
		t.Errorf("without a place to record it: %s", got)
	}
	got = complaints(t, []string{"-worker-id=1", "-generators=/nowhere"}, "KATSUBUSHI_GENERATOR", "a snowflake;b")
	if !strings.Contains(got, "KATSUBUSHI_GENERATOR: \"b\": ") ||
		!strings.Contains(got, "-generators: open /nowhere: no such file") {
		t.Error(got)
	}
}

// All that is wrong with timestamps is told at once. What only the counter store knows is told with the same exit code.
func TestProblemsOfTimestamps(t *testing.T) {
	define := func(name, options string) string {
		return "-generator=" + name + " snowflake layout=katsubushi order=strict " + options
	}
	got := complaints(t, []string{"-worker-id=1", "-loops=0", "-counters=rediss://localhost",
		define("a", "node=1024 ahead=9s"), define("b", "node=1 ahead=0s"), define("c", "node=1000"),
		define("d", "node=1000 ahead=1500us")})
	for name, wants := range map[string][]string{
		"":  {"-loops: 0"},
		"a": {"node=1024: layout katsubushi has 0 to 1023", `"ahead=9s": 1s to 5s`, "in rediss nothing elects the one"},
		"b": {"this daemon's worker ids go up to 1", `"ahead=0s": 1s to 5s`, "in rediss nothing elects"},
		"c": {"in rediss nothing elects"},
		"d": {`node=1000 of layout katsubushi is taken already, by "c `, "ahead=1500us", "in rediss nothing elects"},
	} {
		for _, want := range wants {
			if !slices.ContainsFunc(strings.Split(got, "\n"), func(line string) bool {
				return strings.Contains(line, want) && (name == "" || strings.HasPrefix(line, `-generator: "`+name+" snow"))
			}) {
				t.Errorf("%s\nand not %q of %q", got, want, name)
			}
		}
	}
	got = complaints(t, []string{"-worker-id=1", "-loops=0", define("c", "node=1000"), define("d", "node=1000")})
	if !strings.Contains(got, "node=1000 of layout katsubushi is taken already, by") ||
		!strings.Contains(got, "-loops: 0") {
		t.Error(got)
	}
	dir := t.TempDir()
	place := []string{"-state-dir", dir, "-state-any-disk"}
	create := []string{"name", "create", "c snowflake layout=katsubushi order=strict node=1000"}
	var stderr bytes.Buffer
	if code := run(append(create, place...), variables{}, &stderr, &stderr); code != exitOK {
		t.Fatalf("%d: %s", code, &stderr)
	}
	create[2] = strings.Replace(create[2], "c ", "d ", 1)
	for _, args := range [][]string{create, {"-worker-id=1", "-claim=off", "-port=0", "-bind=127.0.0.1", "-http-port=0",
		define("d", "node=1000"), define("c", "node=1001")}} {
		got := complaints(t, append(args, place...))
		if !strings.Contains(got, "node=1000 of layout katsubushi is that of c") ||
			args[0] != "name" && !strings.Contains(got, "is not what is recorded") {
			t.Error(got)
		}
	}
	got = complaints(t, []string{"generator", "create", "e snowflake layout=katsubushi order=strict node=1024 ahead=9s",
		"-counters=mysql://localhost/x"})
	for _, want := range []string{"layout katsubushi has 0 to 1023", "1s to 5s", "in mysql nothing elects"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nand not %q", got, want)
		}
	}
}

func TestProblemsBehindAnUnknownFlagAreToldToo(t *testing.T) {
	for _, args := range [][]string{
		{"-prot", "3", "-worker-id", "7", "-loops", "0"}, {"-prot=3", "-worker-id", "7", "-loops", "0"},
		{"-prot", "-worker-id", "7", "-loops", "0"},
		{"-=prot", "3", "-worker-id", "7", "-loops", "0"},
	} {
		got := complaints(t, args)
		if !strings.Contains(got, "prot") || !strings.Contains(got, "-loops: 0: 1 to 1024 allowed") ||
			strings.Contains(got, "none given") || strings.Contains(got, `"3"`) {
			t.Errorf("%q: %s", args, got)
		}
	}
}

func TestProblemsOfUDPAreToldByItsFlag(t *testing.T) {
	got := complaints(t,
		[]string{"-worker-id=1", "-udp-port=11212", "-sock=/s", "-auth-file=/none", "-tls-cert=/none", "-tls-key=/none"})
	for _, flag := range []string{"-sock", "-auth-file", "-tls-cert"} {
		if !strings.Contains(got, "-udp-port: ") || !strings.Contains(got, "not together with "+flag) {
			t.Errorf("nothing is said of %s: %s", flag, got)
		}
	}
	if got := complaints(t, []string{"-worker-id=1", "-udp-port=65536", "-loops=0"}); !strings.Contains(got,
		"-udp-port: 65536: 0 to 65535 allowed\n-loops: 0") {
		t.Error(got)
	}
}

func TestProblemsOfLeasesAreToldByTheirFlags(t *testing.T) {
	const url = "-redis=redis://h/0"
	for _, c := range []struct{ args, env, want []string }{
		{[]string{url, "-lease", "5s", "-redis-replicas", "-1", "-lanes=9", "-min-worker-id=3", "-max-worker-id=4"}, nil,
			[]string{"-lease: 5s is too short", "-redis-replicas: -1: ",
				"-lanes: 9: more than there are worker ids from 3 to 4"}},
		{[]string{"-redis=redis://u:hush@h/0", "-redis-password-file=/none", "-lease=5s"}, nil,
			[]string{"-redis-password-file: there is a password in the URL too",
				"-redis-password-file: stat /none: no such file", "-lease: 5s is too short"}},
		{[]string{"run", "-server=foo://h", "-expire=5s"}, []string{"KATSUBUSHI_REDIS_PASSWORD_FILE", "/none"},
			[]string{"-server: ", "KATSUBUSHI_REDIS_PASSWORD_FILE: stat /none: no such file", "-expire: 5s is too short"}},
		{[]string{"lease", "stats", url, "-redis-password-file=/dev/null", "-lease=5s"}, nil,
			[]string{"-redis-password-file: /dev/null: no regular file", "-lease: 5s is too short"}},
		{[]string{"-worker-id=1", "-redis-password-file=/none"}, nil,
			[]string{"-redis-password-file: belongs to -redis, which is not given"}},
		{[]string{url, "-lease=40s", "-time-unit=33s"}, nil,
			[]string{"-lease: 40s: with ticks of 33s it must be at least 40.666666666s"}},
		{[]string{url, "-min-worker-id=8"}, []string{"MAX_WORKER_ID", "4"},
			[]string{"MAX_WORKER_ID: 4: not below the smallest, 8"}},
		{[]string{url, "-max-skew", "0"}, []string{"KATSUBUSHI_LEASE", "0s"},
			[]string{"-max-skew=0: more than 0", "KATSUBUSHI_LEASE=0s: more than 0"}},
		{[]string{"run", "-server=foo://h", "-expire=5s", "-interval=1h", "-margin=9m"}, nil,
			[]string{"-server: ", "-expire: 5s is too short", "-interval: 1h0m0s: at most half", "no command", "margin of 9m"}},
		{[]string{"lease", "list", "-redis=foo://h", "-lease=5s"}, nil, []string{"-redis: ", "-lease: 5s is too short"}},
		{[]string{"lease", url}, nil, []string{"lease: no verb is given"}},
		{[]string{"state"}, nil, []string{"state: no verb is given"}},
	} {
		got := complaints(t, c.args, c.env...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: nothing says %q: %s", c.args, want, got)
			}
		}
	}
}

func TestAStateDirectoryBesideRedisIsNoted(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{{nil, false}, {[]string{"STATE_DIRECTORY", "/s"}, false}, {[]string{"KATSUBUSHI_STATE_DIR", "/s"}, true},
		{[]string{"KATSUBUSHI_STATE_DIR", "none"}, false}} {
		p, _, err := parse(settings, []string{"-redis=redis://h/0"}, environment(c.env...), nil)
		if err != nil || slices.Contains(p.notes, "KATSUBUSHI_STATE_DIR is for sequences only: with -redis the windows "+
			"are recorded there") != c.want {
			t.Errorf("%q: %v, %q", c.env, err, p.notes)
		}
	}
}

// What a fleet on etcd needs is told together, each by its flag.
func TestProblemsOfAFleetAreToldByTheirFlags(t *testing.T) {
	dir := t.TempDir()
	password, open, empty := filepath.Join(dir, "password"), filepath.Join(dir, "open"), filepath.Join(dir, "empty")
	for path, mode := range map[string]os.FileMode{password: 0o600, open: 0o644, empty: 0o600} {
		text := map[bool]string{false: "secret\n"}[path == empty]
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	const everywhere = "-advertise: a sequence with order=strict may be led from here, and this daemon listens on all " +
		"addresses: give the HOST:PORT"
	strict := filepath.Join(dir, "strict")
	if err := os.WriteFile(strict, []byte("orders sequence order=strict\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := []string{"-worker-id=1", "-counters=etcd://h"}
	etcd := []string{"-worker-id=1", "-counters=etcd://h", "-generator=orders sequence order=strict"}
	for _, c := range []struct {
		args []string
		want []string // how each line begins
	}{
		{[]string{"-worker-id=1", "-forward-user=u", "-forward-password-file=" + password, "-forward-ca=" + password},
			[]string{
				"-forward-user: belongs to -counters etcd://", "-forward-password-file: belongs to -counters etcd://",
				"-forward-ca: belongs to -counters etcd://",
				"-forward-ca: " + password + ": no certificate"}},
		{free, nil}, // nobody leads
		{append(free, "-generator=orders sequence"), nil},
		{append(free, "-generators="+strict), []string{everywhere}},
		{append(free, "-generators="+strict, "-bind=::1", "-auth-file="+empty), []string{"-forward-user: none given"}},
		{append(etcd, "-generators="+strict), []string{everywhere}}, // once
		{etcd, []string{everywhere}},
		{append(etcd, "-bind=0.0.0.0"), []string{everywhere}},
		{append(etcd, "-bind=::"), []string{everywhere}},
		{append(etcd, "-bind=::1"), nil},
		{append(etcd, "-bind=db1.example"), nil},
		{append(etcd, "-advertise=h:1"), nil},
		{append(etcd, "-sock=/s"), nil}, // it leads nothing
		{append(etcd, "-sock=/s", "-redis-port=6379"), []string{everywhere}},
		{append(etcd, "-forward-user=u"), []string{everywhere, "-forward-user: u has no password"}},
		{append(etcd, "-forward-password-file="+password),
			[]string{everywhere, "-forward-password-file: a password of nobody"}},
		{append(etcd, "-bind=::1", "-forward-user=u", "-forward-password-file="+open),
			[]string{"-forward-password-file: " + open + ": mode 0644"}},
		{append(etcd, "-bind=::1", "-forward-user=u", "-forward-password-file="+empty),
			[]string{"-forward-password-file: " + empty + ": no password"}},
		{append(etcd, "-bind=::1", "-forward-user=u", "-forward-password-file="+password), nil},
		{append(etcd, "-bind=::1", "-forward-ca=/none"),
			[]string{"-forward-ca: the other daemons are asked over TLS only", "-forward-ca: open /none"}},
		{append(free, "-bind=::1", "-auth-file="+empty, "-generator=orders sequence"), nil},
		{append(etcd, "-bind=::1", "-auth-file="+empty), []string{"-forward-user: none given: with -auth-file"}},
	} {
		p, _, _ := parse(settings, c.args, environment(), nil)
		var lines []string
		if err := p.validate(); err != nil {
			for line := range strings.Lines(err.Error()) {
				if strings.Contains(line, "forward") || strings.Contains(line, "advertise") {
					lines = append(lines, line)
				}
			}
		}
		if len(lines) != len(c.want) {
			t.Errorf("%q: %q", c.args, lines)
			continue
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, c.want[i]) {
				t.Errorf("%q: %q", c.args, line)
			}
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"lease", "--help"}, {"lease", "-h"}, {"lease", "init", "-help"},
		{"state", "--help"}, {"run", "--help"},
		{"inspect", "-h"}, {"healthcheck", "-help"}} {
		var stdout, stderr bytes.Buffer
		if code := run(args, environment(), &stdout, &stderr); code != exitOK || stdout.Len() == 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, %d bytes of help, %q", args, code, stdout.Len(), &stderr)
		}
	}
}

func TestWhyItCannotStartIsLoggedAtEveryLevel(t *testing.T) {
	for _, level := range []string{"info", "fatal", "panic"} {
		var stderr bytes.Buffer
		code := run([]string{"-worker-id=1", "-sock=/nowhere/at/all", "-log-level", level}, environment(), nil, &stderr)
		if code != exitFailure ||
			!strings.Contains(stderr.String(), `level=FATAL msg="cannot start" error="listen unix /nowhere/at/all`) {
			t.Errorf("%s: exit code %d: %s", level, code, &stderr)
		}
	}
}

func TestAMissingWorkerIDSaysHowToGiveOne(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(nil, environment(), nil, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "-worker-id: none given: 0 to 1023") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}

func TestRedisSettingsNeedRedis(t *testing.T) {
	var stderr bytes.Buffer
	run([]string{"-worker-id", "1", "-lanes", "2", "-min-worker-id", "0"},
		environment("KATSUBUSHI_LEASE", "30s", "MAX_WORKER_ID", "7"), nil, &stderr)
	for _, want := range []string{"-lanes: belongs to -redis", "KATSUBUSHI_LEASE: belongs to -redis",
		"MAX_WORKER_ID: belongs to -redis"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("nothing says %q: %s", want, &stderr)
		}
	}
	if strings.Contains(stderr.String(), "-min-worker-id") {
		t.Errorf("kayac's default is no problem: %s", &stderr)
	}
}

func TestUnknownFlagsAndWords(t *testing.T) {
	for _, args := range [][]string{{"-worker-id", "1", "-prot", "1"}, {"-worker-id", "1", "serve"}, {"inspekt", "1"}} {
		var stderr bytes.Buffer
		if code := run(args, environment(), nil, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		} else if last := args[len(args)-1]; !strings.Contains(stderr.String(), strings.TrimLeft(last, "-")) &&
			!strings.Contains(stderr.String(), "prot") {
			t.Errorf("%q: %s", args, &stderr)
		}
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-help", "all"}, environment(), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	columns := map[int]int{} // in which the texts of the subcommands begin
	for _, m := range regexp.MustCompile(`(?m)^  katsubushi .*?  +`).FindAllString(stdout.String(), -1) {
		columns[len(m)]++
	}
	if lines := strings.Count(stdout.String(), "\n  katsubushi "); len(columns) != 1 || lines != len(commands())+1 {
		t.Errorf("%d subcommands; how many of their texts begin in which columns: %v", lines, columns)
	}
	var names []string
	for _, s := range settings(new(options)) {
		if slices.Contains(names, s.name) {
			t.Errorf("-%s stands twice in the table", s.name)
		}
		names = append(names, s.name)
		if !strings.Contains(stdout.String(), "  -"+s.name) {
			t.Errorf("no -%s", s.name)
		}
	}
}

// TestPortsThatClash: each is told, in whatever pair, as a setting; port 0 and ports that are off
// clash with none.
func TestPortsThatClash(t *testing.T) {
	const (
		http, debug, debugHTTP = "-http-port: 5 is the memcached port too\n", "-debug-port: 5 is the memcached port too\n",
			"-debug-port: 5 is the HTTP port too\n"
	)
	for _, c := range []struct{ args, want string }{
		{"-port=5 -debug-port=5 -enable-stats", debug},
		{"-port=5 -debug-port=5 -enable-pprof -bind=127.0.0.1", debug},
		{"-port=5 -debug-port=5 -enable-pprof -bind=localhost", debug},
		{"-port=5 -debug-port=5 -enable-pprof -bind=127.0.0.2", ""},
		{"-port=5 -debug-port=5", debug},
		{"-port=5 -debug-port=5 -enable-stats=false", ""},
		{"-port=5 -debug-port=5 -enable-stats -sock=s", ""},
		{"-http-port=5 -debug-port=5 -enable-stats", debugHTTP},
		{"-http-port=5 -debug-port=5 -enable-stats -http-bind=10.0.0.1", ""},
		{"-http-port=5 -debug-port=5 -enable-stats -bind=10.0.0.1 -http-bind=127.0.0.1", debugHTTP},
		{"-port=5 -http-port=5 -debug-port=5 -enable-stats", debugHTTP + debug + http},
		{"-port=5 -udp-port=5", ""},
		{"-port=5 -grpc-port=5", "-grpc-port: 5 is the memcached port too\n"},
		{"-http-port=5 -grpc-port=5", "-grpc-port: 5 is the HTTP port too\n"},
		{"-grpc-port=5 -admin-port=5 -admin-bind=10.0.0.1", "-admin-port: 5 is the gRPC port too\n"},
		{"-port=5 -admin-port=5", "-admin-port: 5 is the memcached port too\n"},
		{"-port=5 -admin-port=5 -bind=10.0.0.1", ""},
		{"-http-port=5 -admin-port=5 -bind=10.0.0.1 -admin-bind=10.0.0.1", "-admin-port: 5 is the HTTP port too\n"},
		{"-port=0 -http-port=0 -debug-port=0 -enable-stats", ""},
	} {
		var told []string
		for line := range strings.Lines(complaints(t, append(strings.Fields(c.args), "-worker-id=1", "-loops=0"))) {
			if strings.Contains(line, " port too") {
				told = append(told, line)
			}
		}
		slices.Sort(told)
		if got := strings.Join(told, ""); got != c.want {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}

// TestALongSocketPath: the kernel's limit is told as a setting.
func TestALongSocketPath(t *testing.T) {
	most := len(syscall.RawSockaddrUnix{}.Path) - 1
	for n, wrong := range map[int]bool{most: false, most + 1: true} {
		got := complaints(t, []string{"-worker-id=1", "-loops=0", "-sock", "/" + strings.Repeat("s", n-1)})
		if strings.Contains(got,
			fmt.Sprintf("-sock: a path of %d bytes: a unix socket's has at most %d\n", n, most)) != wrong {
			t.Errorf("a path of %d bytes: %s", n, got)
		}
	}
}

// TestTwoPortsOnOneAddress: the ports may have one number where their addresses differ.
func TestTwoPortsOnOneAddress(t *testing.T) {
	for _, c := range []struct {
		bind, httpBind string
		clash          bool
	}{
		{"", "", true}, {"127.0.0.1", "", true}, {"127.0.0.1", "0.0.0.0", true}, {"", "::1", true}, {"::", "127.0.0.1", true},
		{"10.0.0.1", "10.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false}, {"127.0.0.1", "::1", false},
	} {
		got := complaints(t,
			[]string{"-worker-id=1", "-loops=0", "-port=5", "-http-port=5", "-bind", c.bind, "-http-bind", c.httpBind})
		if strings.Contains(got, "-http-port: 5 is the memcached port too") != c.clash {
			t.Errorf("-bind %q -http-bind %q: %s", c.bind, c.httpBind, got)
		}
	}
}

// Every bad line of the file of users is told, and what is wrong with -users.
func TestProblemsOfUsersAreToldTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("ann:x\nbob\neve:$2y$10$abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := complaints(t, []string{"-worker-id=1", "-auth-file=" + file, "-users=counters", "-loops=0"})
	for _, want := range []string{
		"-auth-file: " + file + ": line 2: user:password expected\n",
		"-auth-file: " + file + ": line 3: a hash of another kind",
		"-users: only etcd keeps users", "-users: not together with -auth-file", "-loops: 0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for args, want := range map[string]string{
		"-users=file":                                    `-users: "file": counters allowed`,
		"-users=counters -auth-store=counters":           "-auth-store and -users: both say where users are kept",
		"-max-wait=1s -sequence-wait=1s":                 "-sequence-wait and -max-wait: both say how long clients wait",
		"-name=a -generator=b":                           "-name and -generator: both say which names there are",
		"-names=/a -generators=/b":                       "-names and -generators: both say which names there are",
		"-users=counters":                                "-users: only etcd keeps users",
		"-users=counters -counters=etcd://h -udp-port=1": "-udp-port: datagrams carry no login: not together",
	} {
		if got := complaints(t, append(strings.Fields(args), "-worker-id=1")); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
}

// TestDescriptorsForSequences: sequences in files, declared or found in the directory, lower the default of
// -max-connections by one each, and those with order=strict by another. Where there are too few descriptors for the
// latter, an error says how many are needed.
func TestDescriptorsForSequences(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	if code := run([]string{"name", "create", "found sequence", "-state-dir", dir, "-state-any-disk"}, variables{},
		io.Discard, &said); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	connections := func(args ...string) int {
		t.Helper()
		p, _, err := parse(settings, append([]string{"-worker-id", "1", "-state-dir", dir, "-state-any-disk"}, args...),
			variables{}, nil)
		if err == nil {
			err = p.validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.MaxConnections
	}
	all := openFiles() - otherFiles - 64 // the page's 32, and those it refuses
	declared := []string{"-generator", "found sequence", "-generator", "a sequence", "-generator", "b sequence",
		"-generator", "c uuid7"}
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, all - 1},
		{declared, all - 3},
		{append(declared, "-generator", "d sequence order=strict"), all - 5},
		{append(declared, "-max-connections", "100"), 100},
		{[]string{"-counters", "etcd://127.0.0.1:1"}, all},
	} {
		if got := connections(c.args...); got != c.want {
			t.Errorf("%q: %d connections, want %d", c.args, got, c.want)
		}
	}
	if err := checkDescriptors(256, 688, 256+688+otherFiles+fewConnections); err != nil {
		t.Error(err)
	}
	want := "700 sequences in files with order=strict hold a descriptor each, and this process may have 1024 in all: " +
		"raise that limit to 1036 or more"
	if err := checkDescriptors(256, 700, 1024); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := checkDescriptors(10, 0, 10); err != nil { // they share what there is
		t.Error(err)
	}
}
