package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// runName runs `katsubushi name` with a state directory.
func runName(dir string, args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = patiently(environment("KATSUBUSHI_STATE_DIR", dir, "KATSUBUSHI_STATE_ANY_DISK", "true"),
		append([]string{"name"}, args...)...)
	return code, stdout, stderr
}

func TestGeneratorCommands(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args   string
		code   int
		stdout string // contained; "" = nothing
		stderr string // the same
	}{
		{"list", exitFailure, "", "no sequence is recorded there"},
		{"show orders", exitFailure, "", "no such sequence"},
		{"raise orders 5", exitFailure, "", "no such sequence"},
		{"create orders sequence start=100 step=2 offset=1 order=strict", exitOK, "orders  101         0",
			"recorded in " + dir},
		// it is there
		{"create orders sequence step=2 offset=1 start=100 order=strict batch=7", exitOK,
			"orders sequence start=100 step=2 offset=1 order=strict\n", "recorded in"},
		{"create orders sequence start=100", exitUsage, "",
			`"orders sequence start=100" is not what is recorded, "orders sequence start=100 step=2 offset=1 order=strict"`},
		{"raise orders 101", exitFailure, "", "101 is not above what is there: already no value below 101 is issued"},
		{"raise orders 200", exitOK, "orders  201         200", "no value below 200 is issued any more"},
		{"raise orders 150", exitFailure, "", "150 is not above what is there: already no value below 200 is issued"},
		{"create a:{b} sequence", exitOK, "a:{b}  1", "recorded in"},
		{"list -json", exitOK,
			`{"name":"orders","definition":"orders sequence start=100 step=2 offset=1 order=strict","next":"201",` +
				`"floor":"200","left":"4611686018427387804","state":"active"}`, ""},
		{"retire orders", exitFailure, "", "-force does that"},
		{"show orders", exitOK, "active", ""},
		{"retire orders -force", exitOK, "retired", "recorded in"},
		{"create orders sequence start=100 step=2 offset=1 order=strict", exitFailure, "",
			"orders is retired: the name cannot be used again"},
		{"raise orders 300", exitFailure, "", "the sequence is retired"},
		{"retire none -force", exitFailure, "", "no such sequence"},
		{"adopt", exitFailure, "", "no record was written on another machine"},
		{"adopt a:{b}", exitFailure, "", "is this machine's already"},
		{"create once sequence max=1", exitOK, "once  1", "recorded in"},
		{"-json show once", exitUsage, "", "\"show\""},
	} {
		args := strings.Fields(c.args)
		if strings.HasPrefix(c.args, "-json") {
			c.code, c.stdout, c.stderr = exitOK, `"left":"1"`, ""
		}
		code, o, e := runName(dir, args...)
		if code != c.code || !strings.Contains(o, c.stdout) || !strings.Contains(e, c.stderr) ||
			(c.stderr == "") != (e == "") || (c.stdout == "") != (o == "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, code, c.code, o, e)
		}
	}
}

func TestGeneratorIsUsedRightly(t *testing.T) {
	for args, want := range map[string]string{
		"":                                 "no verb is given: the verbs are create, list",
		"destroy orders":                   "the verbs are create, list, show, raise, adopt, replicas and retire",
		"create":                           "takes 1 to 16 arguments, not []",
		"show":                             "takes one argument, not []",
		"list all":                         `takes no arguments, not ["all"]`,
		"raise orders":                     `takes 2 arguments, not ["orders"]`,
		"raise orders -5":                  "AT_LEAST=-5: 1 to 9223372036854775807 allowed",
		"raise orders many":                "AT_LEAST=many: 1 to 9223372036854775807 allowed",
		"raise orders 0":                   "AT_LEAST=0: 1 to",
		"raise orders 9223372036854775808": "AT_LEAST=9223372036854775808: 1 to",
		"raise ../x 5":                     `the name "../x"`,
		"create ../x sequence":             `the name "../x"`,
		"create orders sequence step=0":    `"step=0"`,
		"create orders uuid7":              `give daemons -name "orders uuid7"`,
		"create orders sequence -force":    "-force: only for retire",
		"retire orders -json":              "-json: only for list and show",
		"list -counters mongo://a":         "-counters: a URL begins with file, redis, ",
		"create orders sequence rate=0":    `"rate=0": 1 to 10000000 allowed`,
		"create orders sequence rate=5":    "rate= and on-loss= are for stores that may lose",
		"create orders sequence max=9 order=strict -counters redis://h": "order=strict: in redis nothing elects",
		"create orders sequence max=9 -counters redis://h":              "for 10 years it must be 3153600000001",
		"adopt -counters redis://h":                                     "for files only",
		"list -counters redis://u:hush@h -counters-password-file /none": "-counters-password-file: there is a password in " +
			"the URL too",
		"list -counters-password-file /none": "wants a password, and file wants none",
		"list -counters file://a":            "with three slashes",
		"list -state-dir none": "give -state-dir DIRECTORY or -counters " +
			"file:///DIRECTORY",
		"list -counters file -max-wait 2m5":                            "-max-wait=2m5: a duration",
		"list -counters etcd://u:hush@":                                "-counters: the URL names no host",
		"list -counters etcd://u@a":                                    "-counters: user u has no password",
		"create orders sequence order=strict -counters postgres://u@a": "order=strict: in postgres nothing elects",
		"list -counters etcd://u@a -counters-password-file /none/one":  "-counters-password-file: stat /none/one",
	} {
		code, _, stderr := runName(t.TempDir(), strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "hush") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	if code, out, _ := runName("", "-help"); code != exitOK ||
		!strings.Contains(out, "name raise NAME AT_LEAST") {
		t.Error(code, out)
	}
}

// The files of another machine are taken over once an operator has said so.
func TestGeneratorAdopt(t *testing.T) {
	dir := t.TempDir()
	golden, err := os.ReadFile("../../counter/file/testdata/golden.sequence") // written on some other machine
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sequences"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sequences", "shop.orders%3A{eu}.sequence"), golden, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := runName(dir, "list"); code != exitFailure ||
		!strings.Contains(out, "shop.orders:{eu}  10001") ||
		!strings.Contains(stderr, "`katsubushi name raise shop.orders:{eu} 10001`") {
		t.Error(code, out, stderr)
	}
	if code, _, stderr := runName(dir, "raise", "shop.orders:{eu}", "10000"); code != exitFailure ||
		!strings.Contains(stderr, "10000 is too low: the record says that values below 10001 were granted") {
		t.Error(code, stderr)
	}
	if code, out, stderr := runName(dir, "adopt"); code != exitOK ||
		!strings.Contains(out, "shop.orders:{eu}  10001       10001") {
		t.Error(code, out, stderr)
	}
	if code, _, stderr := runName(dir, "list"); code != exitOK {
		t.Error(code, stderr)
	}
}

// A record that is damaged is listed, is not made anew by create, and is by raise, which needs to be told the
// definition.
func TestGeneratorRaiseOfADamagedRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sequences", "evens.sequence")
	runName(dir, "create", "evens", "sequence", "step=2", "offset=2")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "names")
	if err := os.WriteFile(file, []byte("# names\nevens sequence step=2 offset=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"list", exitFailure, "evens  0           0      0     damaged", path + ": no copy of the record is whole"},
		{"create evens sequence step=2 offset=2", exitFailure, "", "the record is damaged"},
		{"retire evens -force", exitFailure, "", "the record is damaged"},
		{"adopt", exitFailure, "", "no record was written on another machine"},
		{"raise evens 1001", exitFailure, "", "-name 'evens sequence ...'"},
		{"raise evens 1001 -generators " + file, exitOK, "evens  1002        1001", "no value below 1001 is issued"},
		{"list", exitOK, "evens sequence start=1 step=2 offset=2", ""},
	} {
		code, o, e := runName(dir, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(o, c.stdout) || !strings.Contains(e, c.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, code, c.code, o, e)
		}
	}
}

// The number of replicas is in the URL of each daemon too, so the command says that they must be restarted.
func TestGeneratorReplicas(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	counters := "-counters=redis://" + server.Addr() + "/0?ns=" + redistest.Namespace(t)
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"replicas 0 " + counters, exitFailure, "", "says how many replicas"},
		{"create orders sequence " + counters + "&replicas=0", exitOK, "orders  1", "recorded in"},
		{"replicas 0 " + counters, exitOK, "replicas=0, before 0: daemons with another number in their URL are granted " +
			"nothing. Restart all daemons with replicas=0 in theirs\n", "recorded in"},
		{"replicas 1 " + counters, exitFailure, "", "too few replicas"},
		{"replicas many " + counters, exitUsage, "", "K=many: a number of replicas"},
		{"replicas 1", exitUsage, "", "for Redis only"},
	} {
		code, o, e := runName(t.TempDir(), strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(o, c.stdout) || !strings.Contains(e, c.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, code, c.code, o, e)
		}
	}
}
