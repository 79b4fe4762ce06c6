package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// demote says what it did, or why not, and exits accordingly. The fleet sees which daemon leads how many groups.
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
	says(exitUsage, `demote: "foo" is no group: all, 0 to 31 or HOST:PORT allowed`, append(nowhere, "foo")...)
	says(exitUsage, "demote: group 32: 0 to 31 allowed", append(nowhere, "32")...)
	says(exitFailure, "nobody leads: there is no daemon", with("all")...)
	says(exitFailure, "nobody leads group 3", with("3")...)
	says(exitFailure, "10.0.0.5:11212 leads no group", with("10.0.0.5:11212")...)

	pool := append([]string{"-store", counters[1], "-lease=20s", "-max-skew=1s"}, counters...)
	poolOf{pool[:4]}.init(t)
	first := start(t, append([]string{"-generator", "orders sequence order=strict"}, pool...)...)
	// demote waits until another daemon takes part, and returns what it says.
	demote := func(which string, code int) (said string) {
		t.Helper()
		await(t, "demote "+which, func() bool {
			var out bytes.Buffer
			got := run(append([]string{"demote", which}, counters...), environment(), &out, &out)
			said = out.String()
			return got == code && (code == exitOK || strings.Contains(said, first.Addr()+": no other daemon takes part"))
		})
		return said
	}
	demote("3", exitFailure)
	second := start(t, pool...)
	// led waits until both see that many groups at each.
	led := func(ofFirst, ofSecond int) {
		t.Helper()
		await(t, fmt.Sprintf("%d and %d groups are led", ofFirst, ofSecond), func() bool {
			for _, p := range []*process{first, second} {
				seen := p.fleet(t)
				a, b := seen[first.Addr()].Groups, seen[second.Addr()].Groups
				if a == nil || b == nil || *a != ofFirst || *b != ofSecond {
					return false
				}
			}
			return true
		})
	}
	led(16, 0)
	demote("3", exitOK)
	led(15, 1)
	said := demote(first.Addr(), exitOK)
	if want := "from " + first.Addr() + " to " + second.Addr(); !strings.Contains(said, want) {
		t.Errorf("%s; want %s", said, want)
	}
	led(0, 16)
	await(t, "name show says who leads", func() bool {
		_, out, _ := runName("", append([]string{"show", "orders"}, counters...)...)
		return strings.Contains(out, second.Addr())
	})
}
