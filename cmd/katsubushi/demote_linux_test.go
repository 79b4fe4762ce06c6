package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// demote says what it did, or why not, and exits accordingly.
func TestDemote(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	counters := []string{"-counters", etcdtest.URL(t, m)}
	says := func(code int, out string, args ...string) {
		t.Helper()
		got, stdout, stderr, again := patiently(environment(), append([]string{"demote"}, args...)...)
		if said := stdout + stderr; !again && (got != code || !strings.Contains(said, out)) {
			t.Errorf("%q: %d, %s; want %d, %s", args, got, said, code, out)
		}
	}
	with := func(words ...string) []string { return append(words, counters...) }
	says(exitOK, "katsubushi demote HOST:PORT", "-help")
	says(exitUsage, "leaders are elected in etcd only", "3")
	says(exitUsage, "takes at most one argument", append(counters, "3", "4")...)
	// A slip of the finger would act on the whole fleet.
	says(exitUsage, "demote: give all, a GROUP or HOST:PORT.", with()...)
	says(exitUsage, "demote: give all, a GROUP or HOST:PORT.", append(counters, "")...)
	nowhere := []string{"-counters", "etcd://127.0.0.1:1"} // it is not asked
	says(exitFailure, `"foo" is no group: all, 0 to 31 or HOST:PORT allowed`, append(nowhere, "foo")...)
	says(exitFailure, "group 32: 0 to 31 allowed", append(nowhere, "32")...)
	says(exitFailure, "nobody leads: there is no daemon", with("all")...)
	says(exitFailure, "nobody leads group 3", with("3")...)
	says(exitFailure, "10.0.0.5:11212 leads no group", with("10.0.0.5:11212")...)

	first := start(t, append([]string{"-worker-id", "1", "-generator", "orders sequence order=strict"}, counters...)...)
	shown := func() string {
		_, out, _ := runName("", append([]string{"show", "orders"}, counters...)...)
		return out
	}
	await(t, "it leads group 3 too", func() bool {
		var out bytes.Buffer
		run(append([]string{"demote", "3"}, counters...), environment(), &out, &out)
		return strings.Contains(out.String(), "no other daemon takes part")
	})
	says(exitFailure, first.Addr()+": no other daemon takes part", with("3")...)
	second := start(t, append([]string{"-worker-id", "2"}, counters...)...)
	await(t, "the second daemon takes part", func() bool {
		var out bytes.Buffer
		return run(append([]string{"demote", "3"}, counters...), environment(), &out, &out) == exitOK
	})
	says(exitOK, "from "+first.Addr()+" to "+second.Addr(), append(counters, first.Addr())...)
	await(t, "name show says who leads", func() bool { return strings.Contains(shown(), second.Addr()) })
}
