package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/order"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A fleet is some daemons on one etcd, clients of all of them, and what these saw.
type fleet struct {
	t       *testing.T
	members []*etcdtest.Member
	url     string // of etcd itself
	daemons []*fleetDaemon
	began   time.Time
	pause   time.Duration // of clients between two requests
	over    chan struct{} // ends the clients
	clients sync.WaitGroup

	upgrades int // that were done

	mu       sync.Mutex
	pages    [][]order.Request // what was answered, in pages: to copy a longer and longer list would delay clients
	answered []order.Request   // the same in one list, once the clients have ended
	refused  map[string]int    // what clients were told instead, without its numbers
	newest   map[string]int64
}

// A fleetDaemon is one of a fleet. It reaches etcd of several members through doors of its own, which can be
// closed. One member it reaches directly: a door of this busy process would slow it down.
type fleetDaemon struct {
	name  string
	args  []string
	doors []*redistest.Proxy
	off   time.Duration // of its wall clock, which can be shifted in chaos
	mu    sync.Mutex
	p     *process // nil while there is none
}

// strictNames are the names whose order is checked, and freeNames the others. They are of several groups.
var (
	strictNames = []string{"orders", "items", "tickets", "users", "bills", "carts", "parcels", "visits", timestamps}
	freeNames   = []string{"free", "loose", "open", "idle", "spare", "calm", "mild", "plain"}
)

// timestamps is the strict name whose values are ids with a time.
const timestamps = "tx"

// strictDefinition returns the definition of strictNames[i], of whose values each is step above the one before.
func strictDefinition(i int) (line string, step uint64) {
	if strictNames[i] == timestamps {
		return timestamps + " snowflake layout=katsubushi order=strict node=1023", 1
	}
	return fmt.Sprintf("%s sequence step=%d order=strict", strictNames[i], i+1), uint64(i + 1)
}

// startFleet starts etcd and daemons, which serve strictNames and freeNames.
func startFleet(t *testing.T, members, daemons int, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, members: etcdtest.Cluster(t, members), began: time.Now(), over: make(chan struct{}),
		refused: map[string]int{}, newest: map[string]int64{}}
	f.url = etcdtest.URL(t, f.members...)
	var definitions []string
	for _, name := range freeNames {
		definitions = append(definitions, name+" sequence batch=100")
	}
	for i := range strictNames {
		line, _ := strictDefinition(i)
		definitions = append(definitions, line)
	}
	for i := range daemons {
		d := &fleetDaemon{name: fmt.Sprintf("daemon %d", i+1)}
		var hosts []string
		for _, m := range f.members {
			if members == 1 {
				hosts = append(hosts, m.Addr())
				continue
			}
			door := redistest.NewProxy(t, m.Addr())
			d.doors = append(d.doors, door)
			hosts = append(hosts, door.Addr())
		}
		_, query, _ := strings.Cut(f.url, "?")
		d.args = append([]string{"-worker-id", strconv.Itoa(i + 1), "-counters",
			"etcd://" + strings.Join(hosts, ",") + "?" + query,
			"-log-level", "info", "-generator", strings.Join(definitions, ";")}, args...)
		f.daemons = append(f.daemons, d)
		d.launch(t)
	}
	for _, d := range f.daemons {
		d.p.WaitListening(t)
	}
	return f
}

// launch starts the daemon, and does not wait.
func (d *fleetDaemon) launch(t *testing.T) {
	begin := func() *process { return launch(t, d.args...) }
	if os.Getenv(chaosMinutes) != "" {
		begin = func() *process { return launchShifted(t, d.off, d.args...) }
	}
	p := begin()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p = p
}

// shift sets how far the daemon's wall clock is off. One that took over in an upgrade has the machine's.
func (d *fleetDaemon) shift(t *testing.T, off time.Duration) {
	if d.p.Clock == nil {
		return
	}
	d.p.step(t, off-d.off)
	d.off = off
}

// upgrade lets a new process take over from the daemon's, and returns what is to be done when that shall be over. An
// upgrade that was refused, as while etcd is away, changes nothing.
func (d *fleetDaemon) upgrade(f *fleet) func() {
	c := exec.Command(binary, "upgrade", "-pid", strconv.Itoa(d.p.Process.Pid), "-timeout", "20s")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		c.Wait()
		pid := 0
		if n, _ := fmt.Sscanf(said.String(), "process %d of version", &pid); n == 0 {
			f.t.Logf("%s is not upgraded: %s", d.name, &said)
			return
		}
		f.upgrades++
		heir, err := d.p.Succeeded(pid)
		if err != nil {
			f.t.Fatal(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.p = &process{daemonrun.Of(f.t, heir)}
	}
}

// address returns where the daemon listens, or "".
func (d *fleetDaemon) address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.p == nil {
		return ""
	}
	return d.p.Addr()
}

// end ends the process by a signal.
func (d *fleetDaemon) end(t *testing.T, s syscall.Signal) {
	d.mu.Lock()
	p := d.p
	d.p = nil
	d.mu.Unlock()
	p.end(t, s)
}

// cut makes etcd unreachable, and heals that. What was said meanwhile comes late.
func (d *fleetDaemon) cut(m redistest.Mode) {
	for _, door := range d.doors {
		door.Requests(m)
		door.Answers(m)
	}
}

func (f *fleet) now() int64 { return int64(time.Since(f.began)) }

// ask starts clients of every daemon, with memcached's protocol and Redis's.
func (f *fleet) ask(memcached, redis int) {
	for i, d := range f.daemons {
		for range memcached {
			f.clients.Go(func() { f.memcached(d) })
		}
		for range redis {
			f.clients.Go(func() { f.redis(d, rand.New(rand.NewPCG(uint64(i), 0))) })
		}
	}
}

func (f *fleet) stopped() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// connect connects to an address that may be nobody's.
func (f *fleet) connect(address string) (net.Conn, *bufio.Reader) {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if address == "" || err != nil {
		time.Sleep(10 * time.Millisecond)
		return nil, nil
	}
	return c, bufio.NewReader(c)
}

// memcached is a client that asks one daemon for values of all names, and ranges too.
func (f *fleet) memcached(d *fleetDaemon) {
	for i := 0; !f.stopped(); {
		c, r := f.connect(d.address())
		for ok := c != nil; ok && !f.stopped(); i++ {
			time.Sleep(f.pause)
			name, n := f.name(i), 1
			began := f.now()
			c.SetDeadline(time.Now().Add(time.Minute))
			if i%3 == 0 {
				n = 1 + i%5
				fmt.Fprintf(c, "incr %s %d\r\n", name, n)
			} else {
				fmt.Fprintf(c, "get %s\r\n", name)
			}
			line, err := r.ReadString('\n')
			if strings.HasPrefix(line, "VALUE ") {
				line, err = r.ReadString('\n')
				r.ReadString('\n')
			}
			ok = err == nil && f.note(name, began, line, n, d.name+", memcached")
		}
		if c != nil {
			c.Close()
		}
	}
}

// name is what a client asks for in turn: mostly those of strict order.
func (f *fleet) name(i int) string {
	if i%7 == 0 {
		return freeNames[i/7%len(freeNames)]
	}
	return strictNames[i%len(strictNames)]
}

// redis is a client that begins with one daemon and goes where it is sent.
func (f *fleet) redis(d *fleetDaemon, r *rand.Rand) {
	conns := map[string]net.Conn{}
	readers := map[string]*bufio.Reader{}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	at := map[string]string{} // where a name was answered last
	for i := r.IntN(10); !f.stopped(); i++ {
		time.Sleep(f.pause)
		name, n := f.name(i), 1+r.IntN(3)
		began := f.now()
		to := at[name]
		if to == "" {
			to = d.address()
		}
		for !f.stopped() {
			if conns[to] == nil {
				if conns[to], readers[to] = f.connect(to); conns[to] == nil {
					delete(conns, to)
					delete(at, name)
					break
				}
			}
			conns[to].SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(conns[to], "*3\r\n$6\r\nINCRBY\r\n$%d\r\n%s\r\n$1\r\n%d\r\n", len(name), name, n)
			line, err := readers[to].ReadString('\n')
			if err != nil {
				conns[to].Close()
				delete(conns, to)
				delete(at, name)
				break
			}
			if words := strings.Fields(line); words[0] == "-MOVED" {
				to = words[2]
				continue
			}
			if f.note(name, began, strings.TrimPrefix(line, ":"), n, to+", Redis") {
				at[name] = to
			} else {
				delete(at, name)
			}
			break
		}
	}
}

// note notes the last of n values, or a refusal: then it is false.
func (f *fleet) note(name string, began int64, line string, n int, where string) bool {
	end := f.now() // before it waits for mu
	last, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	step := uint64(1)
	if i := slices.Index(strictNames, name); i >= 0 {
		_, step = strictDefinition(i)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused[name+": "+strings.Trim(strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '#'
			}
			return r
		}, line), "\r\n")]++
		return false
	}
	page := len(f.pages) - 1
	if page < 0 || len(f.pages[page]) == cap(f.pages[page]) {
		f.pages, page = append(f.pages, make([]order.Request, 0, 10_000)), page+1
	}
	f.pages[page] = append(f.pages[page],
		order.Request{Name: name, Begin: began, End: end, First: last - uint64(n-1)*step, Stride: step, N: n, Where: where})
	f.newest[where+name] = began
	f.newest[name] = max(f.newest[name], began)
	return true
}

// logSilence logs when no client got a value of a strict name for longer than that.
func (f *fleet) logSilence(longer time.Duration) {
	for _, name := range strictNames {
		var ends []int64
		for _, r := range f.answered {
			if r.Name == name {
				ends = append(ends, r.End)
			}
		}
		slices.Sort(ends)
		total := time.Duration(0)
		for i := 1; i < len(ends); i++ {
			if silence := time.Duration(ends[i] - ends[i-1]); silence > longer {
				f.t.Logf("%s: no value from %.3f on, for %.3f s", name, time.Duration(ends[i-1]).Seconds(), silence.Seconds())
				total += silence
			}
		}
		f.t.Logf("%s: %d answers, and %.0f s without any", name, len(ends), total.Seconds())
	}
}

// served waits until each strict name was answered to a request that began from now on.
func (f *fleet) served(when string) time.Duration {
	f.t.Helper()
	now := f.now()
	f.until(when+": every name is served", func() bool {
		for _, name := range strictNames {
			if f.newest[name] < now {
				return false
			}
		}
		return true
	})
	return time.Duration(f.now() - now)
}

// servedByAll waits until each daemon that runs has answered memcached's clients, of every name.
func (f *fleet) servedByAll(when string) {
	f.t.Helper()
	now := f.now()
	f.until(when+": every daemon serves", func() bool {
		for _, d := range f.daemons {
			for _, name := range strictNames {
				if f.newest[d.name+", memcached"+name] < now {
					return false
				}
			}
		}
		return true
	})
}

func (f *fleet) until(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		ok := is()
		f.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("not so: %s; clients were told %v", what, f.refused)
		}
	}
}

// leaderOf returns the daemon that leads a name, when etcd says that one does.
func (f *fleet) leaderOf(name string) (leader *fleetDaemon) {
	f.t.Helper()
	await(f.t, "a daemon leads "+name, func() bool {
		shown := f.showLeader(name)
		for _, d := range f.daemons {
			if a := d.address(); a != "" && strings.Contains(shown, a) {
				leader = d
			}
		}
		return leader != nil
	})
	return leader
}

// ledByOthers waits until somebody else leads every strict name.
func (f *fleet) ledByOthers(than string) {
	f.t.Helper()
	await(f.t, "others lead than "+than, func() bool {
		return !slices.ContainsFunc(strictNames, func(name string) bool {
			shown := f.showLeader(name)
			return strings.Contains(shown, than) || !strings.Contains(shown, `"leader":"127`)
		})
	})
}

// showLeader returns what `name show` says of a name.
func (f *fleet) showLeader(name string) string {
	_, shown, _ := runName("none", "show", name, "-json", "-counters", f.url)
	return shown
}

// demote hands over all groups, what a daemon leads, or a group, and returns why not. What etcd was too slow for may
// have been carried out.
func (f *fleet) demote(which string) (why string) {
	if code, _, stderr, again := patiently(variables{}, "demote", "-counters", f.url, which); code != exitOK && !again {
		return stderr
	}
	return ""
}

// mustDemote is demote that must succeed.
func (f *fleet) mustDemote(which string) {
	f.t.Helper()
	if why := f.demote(which); why != "" {
		f.t.Error(why)
	}
}

// stop ends the clients, and says what they saw that must not be.
func (f *fleet) stop() {
	f.t.Helper()
	close(f.over)
	f.clients.Wait()
	f.answered = slices.Concat(f.pages...)
	if err := order.Twice(f.answered); err != nil {
		f.t.Error(err)
	}
	strict := slices.DeleteFunc(slices.Clone(f.answered), func(r order.Request) bool {
		return slices.Contains(freeNames, r.Name)
	})
	if err := order.Inverted(strict); err != nil {
		f.t.Error(err)
	}
	f.t.Logf("%d answers, and refusals: %v", len(f.answered), f.refused)
}

// gaps returns a line for each range of values of a name that no client got, though one got a later value.
func (f *fleet) gaps(name string, step uint64) (lines []string) {
	all := slices.DeleteFunc(slices.Clone(f.answered), func(r order.Request) bool { return r.Name != name })
	slices.SortFunc(all, func(a, b order.Request) int { return cmp.Compare(a.First, b.First) })
	next, before := uint64(1), order.Request{}
	for _, r := range all {
		if r.First > next {
			lines = append(lines, fmt.Sprintf("%d values were lost between [%s] and [%s]", (r.First-next)/step, before, r))
		}
		next, before = r.First+uint64(r.N)*step, r
	}
	return lines
}

// slowest returns how long the slowest request for a strict name took that was under way between two moments,
// the second of which is not long ago.
func (f *fleet) slowest(from, to int64) (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, page := range slices.Backward(f.pages) {
		for _, r := range slices.Backward(page) {
			if r.End < from-int64(time.Second) { // they are in the order in which they were noted
				return longest
			}
			if r.End >= from && r.Begin <= to && slices.Contains(strictNames, r.Name) {
				longest = max(longest, time.Duration(r.End-r.Begin))
			}
		}
	}
	return longest
}

// percentiles words a list of pauses.
func percentiles(pauses []time.Duration) string {
	sorted := slices.Sorted(slices.Values(pauses))
	at := func(percent int) time.Duration {
		return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(time.Millisecond / 10)
	}
	return fmt.Sprintf("of %d: p50 %v, p90 %v, p99 %v, largest %v", len(sorted), at(50), at(90), at(99), at(100))
}
