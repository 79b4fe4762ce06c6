package main

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestStoreProblemsAreToldWithAllOthers: a URL that nothing can be done with, by the flag or
// variable that was used, beside whatever else is wrong.
func TestStoreProblemsAreToldWithAllOthers(t *testing.T) {
	both := "both say where worker ids are leased: one of the two is allowed"
	for _, c := range []struct{ args, env, want []string }{
		{[]string{"-store=redis://h/0", "-redis=redis://h/0", "-loops=0"}, nil,
			[]string{"-store and -redis: " + both, "-loops: 0: 1 to 1024 allowed"}},
		{[]string{"-store=redis://h/0", "-lease=5s"}, []string{"REDIS", "redis://h/1"},
			[]string{"-store and REDIS: " + both, "-lease: 5s is too short"}},
		{[]string{"lease", "list", "-redis=redis://h/0"}, []string{"KATSUBUSHI_STORE", "redis://h/1"},
			[]string{"KATSUBUSHI_STORE and -redis: " + both}},
		{[]string{"run", "-server=redis://h/0", "-store=redis://h/0", "-interval=1h"}, nil,
			[]string{"-store and -server: " + both, "-interval: 1h0m0s: at most half", "no command"}},
		{[]string{"-store=etcdd://u:hush@h", "-lease=5s", "-min-worker-id=9", "-max-worker-id=8", "-heartbeat=1h",
			"-loops=0"}, nil,
			[]string{"-store: a URL begins with redis, rediss, ", "-lease: 5s is too short", "-max-worker-id: 8: not below",
				"-heartbeat: 1h0m0s: at most", "-loops: 0: "}},
		{[]string{"lease", "list"}, []string{"KATSUBUSHI_STORE", "h:6379"},
			[]string{"KATSUBUSHI_STORE: a URL begins with redis, "}},
		{[]string{"run", "-store=redis://", "-lease=5s"}, nil, []string{"-store: the URL names no host", "no command"}},
		{[]string{"-store=redis://u:hush@/0", "-loops=0"}, nil, []string{"-store: the URL names no host", "-loops: 0: "}},
		{[]string{"-store=rediss://:6379"}, nil, []string{"-store: the URL names no host"}},
		{[]string{"-store=rediscluster://a,,b"}, nil, []string{"-store: the URL names no host"}},
		{[]string{"-store=unix://?db=1"}, nil, []string{"-store: the URL names no socket"}},
		{[]string{"-store=redis://h/0", "-worker-id=3"}, nil,
			[]string{"-worker-id: with -store worker ids are leased, not given"}},
		{[]string{"-store=redis://h/0", "-redis-replicas=-1", "-redis-password-file=/none"}, nil,
			[]string{"-redis-replicas: -1: ", "-redis-password-file: stat /none"}},
		{[]string{"-store=redis://h/0", "-store-ca=/ca"}, []string{"KATSUBUSHI_STORE_KEY", "/key"},
			[]string{"-store: ca, cert and key belong to rediss://"}},
		{[]string{"-store=rediss://h/0?cert=/a", "-store-cert=/b"}, []string{"KATSUBUSHI_STORE_KEY", "/key"},
			[]string{"-store: ?cert: allowed once"}},
		{[]string{"-store=rediss://h/0", "-store-ca=/none/a&b", "-counters=rediss://h?ca=/none/c"}, nil,
			[]string{"-store: open /none/a&b: no such file", "-counters: open /none/c: no such file"}},
		{[]string{"-store=redis://u@h/0", "-store-password-file=/none/1", "-redis-password-file=/none/2"}, nil,
			[]string{
				"-store-password-file and -redis-password-file: both say where the password is: one of the two is allowed"}},
		{[]string{"run", "-store=redis://u@h/0"}, []string{"KATSUBUSHI_STORE_PASSWORD_FILE", "/none/1"},
			[]string{"KATSUBUSHI_STORE_PASSWORD_FILE: stat /none/1"}},
		{[]string{"-worker-id=1", "-store-cert=/cert"}, nil,
			[]string{"-store-cert: belongs to -redis or -store, and neither is given"}},
		{[]string{"-redis=etcd://h"}, nil,
			[]string{"-redis: a URL begins with redis, rediss, rediscluster, redisclusters, redis+sentinel, " +
				"rediss+sentinel, unix, and ://"}},
		{[]string{"lease", "list"}, nil, []string{"-store or -redis: none given"}},
	} {
		got := complaints(t, c.args, c.env...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: nothing says %q: %s", c.args, want, got)
			}
		}
		if strings.Contains(got, "hush") {
			t.Errorf("%q: the password is told: %s", c.args, got)
		}
	}
	for _, args := range [][]string{ // -redis goes on meaning what it meant
		{"-redis=redis:///0"}, {"-redis=unix:///run/redis.sock"}, {"-store=unix:///run/redis.sock"},
		{"-store=redis://u:p@[::1]:7/0?ns=x"},
		{"-store=redis+sentinel://a,b:7/main", "-redis-replicas=1"},
	} {
		if p, _, err := parse(settings, args, environment(), nil); err != nil || p.validate() != nil {
			t.Errorf("%q: %v, %v", args, err, p.validate())
		}
	}
}

// TestCoordinatorProblemsAreToldTogether: all that is wrong with the URL of ZooKeeper or etcd and what
// belongs to it, in the user's words, without the password.
func TestCoordinatorProblemsAreToldTogether(t *testing.T) {
	for _, scheme := range []string{"etcd", "zookeeper"} {
		for _, c := range []struct{ args, env, want []string }{
			{[]string{"-store=SCHEMEs://u:hush@h:99999,,[::1]:x/a//b/../c?ns=a%2Fb&what=1", "-loops=0", "-lease=5s"}, nil,
				[]string{
					"-store: h: a port is a number from 1 to 65535", "-store: the URL names no host",
					"-store: [::1]: a port is a number",
					`-store: the path /a//b/../c: "" is empty`, `".." is relative`, `-store: ns=a/b: "a/b" has a character`,
					"-store: ?what: ns, ca, cert and key are allowed",
					"-lease: 5s is too short", "-loops: 0: 1 to 1024 allowed",
				}},
			{[]string{"-store=SCHEME://", "-store-ca=/none/ca"}, []string{"KATSUBUSHI_STORE_CERT", "/none/cert"},
				[]string{"-store: the URL names no host", "KATSUBUSHI_STORE_CERT: a certificate and its key belong together"}},
			{[]string{"-store=SCHEMEs://h", "-store-ca=/none/ca", "-store-cert=/none/cert", "-store-key=/none/key"}, nil,
				[]string{"-store-ca: open /none/ca: no such file", "-store-cert: open /none/cert: no such file",
					"-store-key: open /none/key: no such file"}},
			{[]string{"-store=SCHEME://h", "-store-ca=/none/ca"}, nil,
				[]string{"-store-ca: belongs to connections with TLS, and the URL begins with SCHEME://"}},
			{[]string{"lease", "list", "-store=SCHEME://u@h"}, nil, []string{"-store: user u has no password"}},
			{[]string{"run", "-store=SCHEME://h"}, []string{"KATSUBUSHI_STORE_PASSWORD_FILE", "/none/password"},
				[]string{"KATSUBUSHI_STORE_PASSWORD_FILE: a password of nobody", "no command"}},
			{[]string{"-store=SCHEME://u@h", "-store-password-file=/none/password"}, nil,
				[]string{"-store-password-file: stat /none/password: no such file"}},
			{[]string{"-store=SCHEME://u:hush@h", "-store-password-file=/none/password"}, nil,
				[]string{"-store-password-file: there is a password in the URL too"}},
			{[]string{"-store=SCHEME://h", "-redis-replicas=1", "-hold-raus=raus", "-redis=redis://h"}, nil, []string{
				"-store and -redis: both say where worker ids are leased",
			}},
			{[]string{"-store=SCHEME://h", "-redis-replicas=1", "-redis-password-file=/none/p"},
				[]string{"KATSUBUSHI_HOLD_RAUS", "raus"}, []string{
					"-redis-replicas: belongs to Redis, and the store is of another kind: ", "KATSUBUSHI_HOLD_RAUS: belongs to Redis",
					"-redis-password-file: belongs to Redis",
				}},
			{[]string{"-store=SCHEME://h", "-worker-id=3", "-max-worker-id=2000"}, nil,
				[]string{"-worker-id: with -store worker ids are leased", "-max-worker-id: 2000: at most 1023"}},
			{[]string{"-store=SCHEME://h", "-lease=20s", "-heartbeat=9s"}, nil, []string{"-heartbeat: 9s: at most "}},
		} {
			args := strings.Split(strings.ReplaceAll(strings.Join(c.args, "\n"), "SCHEME", scheme), "\n")
			got := complaints(t, args, c.env...)
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "SCHEME", scheme); !strings.Contains(got, want) {
					t.Errorf("%q: nothing says %q: %s", args, want, got)
				}
			}
			if strings.Contains(got, "hush") {
				t.Errorf("%q: the password is told: %s", args, got)
			}
		}
		for _, url := range []string{"SCHEME://h", "SCHEME://h:1,[::1]:2,i/a/b?ns=c", "SCHEMEs://u:hush@h"} {
			args := []string{"-store=" + strings.ReplaceAll(url, "SCHEME", scheme), "-lanes=2", "-max-skew=1s",
				"-lease-auto-init", "-lease=20s"}
			if p, _, err := parse(settings, args, environment(), nil); err != nil || p.validate() != nil {
				t.Errorf("%q: %v, %v", args, err, p.validate())
			}
		}
	}
}

// TestProcessStore: -store does for the daemon, `lease` and `run` what -redis does.
func TestProcessStore(t *testing.T) {
	t.Parallel()
	flags := append([]string{"-store", redistest.Start(t).URL()}, shortLease...)
	got := printed(t, append([]string{"lease", "init", "-how", "new"}, flags...)...)
	if !strings.HasPrefix(got, "recorded in redis://") || !strings.HasSuffix(got, "\nmade: its worker ids can be had\n") {
		t.Errorf("lease init: %s", got)
	}
	if w := workerOf(t, start(t, flags...)); w != 1 {
		t.Errorf("the daemon has worker id %d", w)
	}
	if got := printed(t, append(append([]string{"run"}, flags...), "-log-level", "error", "--", "echo",
		"it is {}")...); got != "it is 2\n" {
		t.Errorf("run: %s", got)
	}
	if got := printed(t, append([]string{"lease", "stats"}, flags...)...); !strings.Contains(got,
		"\nclient_get_id_success       2\n") {
		t.Errorf("lease stats: %s", got)
	}
}

type plainAdmin struct{ workerid.Admin }

func TestAVerbThatAStoreHasNotIsRefused(t *testing.T) {
	for verb, test := range map[string]struct {
		prepare func(*call) work
		want    string
	}{
		"stats": {leaseCounts, "lease stats: Redis keeps no such counts; `lease list` shows its worker ids"},
		"replicas": {leaseReplicas,
			"lease replicas: Redis has no replicas to wait for: a majority of its servers has what it acknowledged"},
		"reset-clock": {leaseResetClock, "lease reset-clock: Redis has no clock of its own"},
		"restored": {leaseRestored, "lease restored: Redis need not be told: daemons notice if it was started with " +
			"older data, and wait. If old keys were put back while it ran, restart it"},
	} {
		lease := subcommandNamed("lease")
		c := &call{command: lease, ownValues: lease.values}
		if err := c.read([]string{verb, "-store", "redis://127.0.0.1:1"}); err != nil || len(c.problems) > 0 {
			t.Fatal(err, c.problems)
		}
		if _, err := test.prepare(c)(t.Context(), plainAdmin{}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", verb, err)
		}
		if verb != "restored" { // which Redis really has not
			continue
		}
		pool, err := stores.OpenAdmin(c.Store)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := test.prepare(c)(t.Context(), pool); err == nil || err.Error() != test.want {
			t.Error(err)
		}
	}
}

// TestProblemsOfAnnouncementsAreToldByTheirFlags: only some stores have a place for them.
func TestProblemsOfAnnouncementsAreToldByTheirFlags(t *testing.T) {
	got := complaints(t, []string{"-worker-id=1", "-announce=on", "-peer-check=warn", "-forward-user=ann", "-loops=0"})
	for _, want := range []string{"-announce: only stores from which", "-peer-check: only stores from which",
		"-forward-user: belongs to", "-loops: 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing says %q: %s", want, got)
		}
	}
	got = complaints(t,
		[]string{"-store=etcd://h", "-announce=on", "-sock=/s", "-peer-check=perhaps", "-forward-user=ann"})
	for _, want := range []string{"-announce: a unix socket has no address",
		`-peer-check: "perhaps": refuse, warn or off allowed`, "-forward-user: ann has no password"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing says %q: %s", want, got)
		}
	}
	p, _, err := parse(settings,
		[]string{"-store=etcd://h", "-forward-user=ann", "-forward-password-file=/dev/null", "-forward-ca=/f",
			"-advertise=h:1", "-sock=/s", "-announce=on"}, environment(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("a login for the check of the peers: %v", err)
	}
}
