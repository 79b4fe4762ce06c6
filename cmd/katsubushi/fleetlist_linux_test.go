package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	others "github.com/katsubushi/katsubushi/v3/internal/fleet"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestTheFleetIsPrinted compares the table, and what a daemon answers, with a file.
func TestTheFleetIsPrinted(t *testing.T) {
	ms := func(d time.Duration) *others.Milliseconds { return (*others.Milliseconds)(&d) }
	three, since := 3, time.Date(2026, 11, 26, 11, 14, 8, 0, time.UTC)
	r := others.Roster{More: 7, Unreadable: 2, Members: []others.Member{
		{Addr: "10.0.0.7:11212", Self: true, State: others.Ready, Workers: []uint64{501, 502}, Version: "3.4.5",
			Left: ms(52 * time.Second), Groups: &three, Since: &since},
		{Addr: "10.0.0.8:11212", State: others.Ready, Workers: []uint64{4}, Version: "3.4.6",
			Ahead: ms(-400 * time.Millisecond), Left: ms(51 * time.Second), Since: &since, Page: "http://10.0.0.8:8081/"},
		{Addr: "10.0.0.9:11212", State: others.NotReady, Version: "3.4.7", Ahead: ms(-70 * time.Second)},
		{Addr: "10.0.0.10:11212", State: "no answer", Workers: []uint64{9}},
		{State: others.NotReady},
	}}
	var b bytes.Buffer
	printFleet(&b, r)
	printFleet(&b, others.Roster{})
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%s\n", text)
	compare(t, "testdata/fleet", b.String())
}

// fleet asks the daemon for its fleet, with the command, and returns it by address.
func (p *process) fleet(t *testing.T) map[string]others.Member {
	t.Helper()
	var out, problems strings.Builder
	args := []string{"fleet", "-json", "-pid", strconv.Itoa(p.Process.Pid)}
	if code := run(args, variables{}, &out, &problems); code != exitOK {
		t.Logf("%d: %s", code, problems.String())
		return nil
	}
	var r others.Roster
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	members := map[string]others.Member{}
	for _, m := range r.Members {
		members[m.Addr] = m
	}
	return members
}

// awaitFleet waits until a daemon sees others in these states, and itself.
func (p *process) awaitFleet(t *testing.T, want map[string]string) (members map[string]others.Member) {
	t.Helper()
	await(t, fmt.Sprint("the fleet is ", want), func() bool {
		members = p.fleet(t)
		for addr, state := range want {
			if members[addr].State != state {
				return false
			}
		}
		return len(members) == len(want)
	})
	return members
}

// TestProcessFleet: with stores of both packages, cas and redis, each daemon sees the others, which want a login and
// speak TLS, and one that was stopped no more.
func TestProcessFleet(t *testing.T) {
	t.Parallel()
	cert, key, _ := selfsigned.Files(t)
	login := []string{"-auth-file", tempfile.Write(t, "users", "ann:secret\n"), "-tls-cert", cert, "-tls-key", key,
		"-forward-user=ann", "-forward-password-file", tempfile.Write(t, "password", "secret"), "-forward-ca", cert}
	for name, url := range map[string]func(t *testing.T) string{
		"etcd":  func(t *testing.T) string { return etcdtest.URL(t, etcdtest.Start(t)) },
		"Redis": func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := []string{"-store", url(t), "-lease=20s", "-max-skew=1s", "-min-worker-id=31", "-max-worker-id=39"}
			poolOf{pool}.init(t)
			pool = slices.Concat(pool, login)
			web := freePort(t)
			a := launch(t, append(pool, "-http-port", web, "-http-bind", "127.0.0.1")...)
			b := launch(t, append(pool, "-lanes=2")...)
			a.WaitListening(t)
			b.WaitListening(t)
			both := map[string]string{a.Addr(): others.Ready, b.Addr(): others.Ready}
			var seen map[string]others.Member
			await(t, "it holds worker ids for both lanes", func() bool { // it serves as soon as it holds one
				seen = b.awaitFleet(t, both)
				return len(seen[b.Addr()].Workers) == 2
			})
			m := seen[a.Addr()]
			if m.Self || len(m.Workers) != 1 || m.Version == "" || m.Ahead == nil || m.Left == nil ||
				time.Duration(*m.Left) > 20*time.Second || time.Duration(*m.Ahead).Abs() > 5*time.Second ||
				m.Page != "http://127.0.0.1:"+web+"/" {
				t.Errorf("the other: %+v", m)
			}
			if m := seen[b.Addr()]; !m.Self || m.Ahead != nil || m.Left == nil || m.Since == nil {
				t.Errorf("itself: %+v", m)
			}
			a.awaitFleet(t, both)
			if _, _, body := httpGet(a.HTTP(), "/"); !strings.Contains(body, a.Addr()+" *") ||
				!strings.Contains(body, "\n"+b.Addr()) {
				t.Errorf("the page does not show both: %s", body)
			}
			b.end(t, os.Interrupt)
			a.awaitFleet(t, map[string]string{a.Addr(): others.Ready})
		})
	}
}
