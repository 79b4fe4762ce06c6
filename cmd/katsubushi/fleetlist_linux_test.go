package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	others "github.com/katsubushi/katsubushi/v3/internal/fleet"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
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

// TestProcessFleet: with each store, each daemon sees the others, and one that was stopped no more.
func TestProcessFleet(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"etcd": func(t *testing.T) string { return etcdtest.URL(t, etcdtest.Start(t)) },
		"ZooKeeper": func(t *testing.T) string {
			return "zookeeper://" + zktest.Start(t).Addr() + "?ns=" + zktest.Namespace(t)
		},
		"Redis": func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := []string{"-store", url(t), "-lease=20s", "-max-skew=1s", "-min-worker-id=31", "-max-worker-id=39"}
			poolOf{pool}.init(t)
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
			text, err := http.Get("http://" + a.HTTP() + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer text.Body.Close()
			if body, _ := io.ReadAll(text.Body); !strings.Contains(string(body), a.Addr()+" *") ||
				!strings.Contains(string(body), "\n"+b.Addr()) {
				t.Errorf("the page does not show both: %s", body)
			}
			b.end(t, os.Interrupt)
			a.awaitFleet(t, map[string]string{a.Addr(): others.Ready})
		})
	}
}

// TestProcessFleetOfLeaders: each daemon sees how many groups of strict sequences each leads, and that a demote moves
// them. A value that the leader is asked for has a latency where it was asked for, too.
func TestProcessFleetOfLeaders(t *testing.T) {
	t.Parallel()
	url := etcdtest.URL(t, etcdtest.Start(t))
	pool := []string{"-store", url, "-lease=20s", "-max-skew=1s", "-min-worker-id=31", "-max-worker-id=39"}
	printed(t, append([]string{"lease", "init", "-how=new"}, pool...)...)
	all := append(slices.Clone(pool), "-counters", url, "-generator",
		"orders sequence order=strict; items sequence order=strict")
	a := launch(t, append(slices.Clone(all), "-http-port", freePort(t), "-http-bind", "127.0.0.1")...)
	b := launch(t, all...)
	a.WaitListening(t)
	b.WaitListening(t)
	// led waits until both see that many groups at each.
	led := func(when string, ofA, ofB int) {
		t.Helper()
		await(t, fmt.Sprintf("%s: %d and %d groups are led", when, ofA, ofB), func() bool {
			for _, p := range []*process{a, b} {
				seen := p.fleet(t)
				first, second := seen[a.Addr()].Groups, seen[b.Addr()].Groups
				if len(seen) != 2 || first == nil || second == nil || *first != ofA || *second != ofB {
					return false
				}
			}
			return true
		})
	}
	demote := func(which string) {
		t.Helper()
		await(t, "demote "+which, func() bool { // until the other one takes part
			var out strings.Builder
			return run([]string{"demote", "-counters", url, which}, environment(), &out, &out) == exitOK
		})
	}
	leads := 0
	await(t, "all groups are led", func() bool {
		seen := a.fleet(t)
		first, second := seen[a.Addr()].Groups, seen[b.Addr()].Groups
		if first == nil || second == nil {
			return false
		}
		leads = *first
		return *first+*second == 16
	})
	if leads > 0 {
		demote(a.Addr())
	}
	led("after the first demote", 0, 16)
	for _, group := range []string{"3", "7"} {
		demote(group)
	}
	led("after two groups", 2, 14)
	page := func() string {
		text, err := http.Get("http://" + a.HTTP() + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer text.Body.Close()
		body, _ := io.ReadAll(text.Body)
		return string(body)
	}
	await(t, "the page shows it", func() bool {
		for line := range strings.Lines(page()) {
			if f := strings.Fields(line); len(f) > 8 && f[0] == b.Addr() {
				return slices.Contains(f, "14")
			}
		}
		return false
	})
	demote(b.Addr())
	led("after the last demote", 16, 0)
	c := dial(t, "tcp", b.Addr())
	defer c.Close()
	fmt.Fprint(c, "get orders\r\nquit\r\n")
	if answer, _ := io.ReadAll(c); !strings.Contains(string(answer), "VALUE orders ") {
		t.Fatalf("%q", answer)
	}
	for _, p := range []*process{a, b} {
		c := dial(t, "tcp", p.Addr())
		defer c.Close()
		fmt.Fprint(c, "stats generators\r\nquit\r\n")
		answer, _ := io.ReadAll(c)
		_, rest, _ := strings.Cut(string(answer), "STAT orders:request_duration_us ")
		if n, _, _ := strings.Cut(rest, "\r\n"); n == "" || p == b && n == "0" {
			t.Errorf("%s: the answers of orders took %q µs", p.Addr(), n)
		}
	}
}

// A bad peer accepts connections, says something, and counts them.
type badPeer struct {
	addr  string
	asked atomic.Int64
}

func newBadPeer(t *testing.T, says string) *badPeer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &badPeer{addr: ln.Addr().String()}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.asked.Add(1)
			go func() {
				defer conn.Close()
				for says != "" {
					if _, err := io.WriteString(conn, says); err != nil {
						return
					}
				}
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return p
}

// TestProcessFleetOfBadPeers: one that is silent, one that sends without an end, and one whose answers are not to be
// shown as they are delay and hurt nobody, and are asked only while somebody looks.
func TestProcessFleetOfBadPeers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := []string{"-store", s.URL(), "-lease=20s", "-min-worker-id=31", "-max-worker-id=39"}
	poolOf{pool}.init(t)
	a := launch(t, pool...)
	b := launch(t, pool...)
	a.WaitListening(t)
	b.WaitListening(t)
	silent := newBadPeer(t, "")
	endless := newBadPeer(t, strings.Repeat("STAT lane_0_x "+strings.Repeat("x", 1000)+"\r\n", 9))
	liar := newBadPeer(t, "STAT time 4102444800\r\nSTAT version \x1b[31m<b>\r\n"+
		"STAT uptime 99999999999999999999\r\nEND\r\n")
	ns := redistest.Namespace(t)
	for i, p := range []*badPeer{silent, endless, liar} {
		name, a := fmt.Sprint("d.bad", i), announcement.Announcement{Addr: p.addr, Version: "9.9.9", Ready: true}
		s.Do("SET", ns+":peers:"+name, a.String())
		s.Do("ZADD", ns+":peers", 1e15, name)
	}
	if n := silent.asked.Load() + endless.asked.Load() + liar.asked.Load(); n != 0 {
		t.Errorf("nobody looks, and they were asked %d times", n)
	}
	seen := a.awaitFleet(t, map[string]string{a.Addr(): others.Ready, b.Addr(): others.Ready, silent.addr: "no answer",
		endless.addr: "strange answer", liar.addr: others.Ready})
	if m := seen[liar.addr]; m.Version != "9.9.9" || m.Since != nil {
		t.Errorf("of the liar: %+v", m)
	}
	if other := seen[b.Addr()]; other.Ahead == nil {
		t.Errorf("of the other: %+v", other)
	}
}

// TestProcessFleetWithLogins: daemons that want a login and speak TLS are asked with -forward-user and -forward-ca.
func TestProcessFleetWithLogins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert := filepath.Join(dir, "cert")
	if _, err := selfsigned.Write(cert, cert+".key", 1); err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t)
	pool := []string{"-store", s.URL(), "-lease=20s", "-min-worker-id=31", "-max-worker-id=39"}
	poolOf{pool}.init(t)
	pool = slices.Concat(pool, []string{"-auth-file", file("users", "ann:secret\n"), "-tls-cert", cert,
		"-tls-key", cert + ".key"})
	login := []string{"-forward-user=ann", "-forward-password-file", file("password", "secret"), "-forward-ca", cert}
	a := launch(t, append(slices.Clone(pool), login...)...)
	b := launch(t, append(slices.Clone(pool), "-forward-ca", cert)...)
	c := launch(t, pool...)
	for _, p := range []*process{a, b, c} {
		p.WaitListening(t)
	}
	want := func(self *process, state string) map[string]string {
		states := map[string]string{a.Addr(): state, b.Addr(): state, c.Addr(): state}
		states[self.Addr()] = others.Ready
		return states
	}
	a.awaitFleet(t, want(a, others.Ready))
	b.awaitFleet(t, want(b, "wants a login"))
	c.awaitFleet(t, want(c, "certificate not trusted"))
}
