//go:build chaos && linux

package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A daemon is one place in the fleet: the process in it is another one after every restart.
type daemon struct {
	t         testing.TB
	name      string
	lanes     int
	versions  []version // that it runs in turn
	first     int       // which of them it ran first
	starts    int
	args      []string
	ways      map[*redistest.Server]*redistest.Proxy // to each server that is or may become the master
	sentinels []*redistest.Proxy
	members   []*redistest.Proxy // to each of an ensemble
	refused   bool               // all its ways are shut
	started   time.Time          // when its process was

	off                 time.Duration // of its host's clock
	*childprocess.Child               // nil before the first start
	at                  atomic.Pointer[place]

	mu  sync.Mutex
	log childprocess.Log // of all its processes

	seen            sight
	copies, ofThose atomic.Int64 // of a program's memory that have gone on, and the ids that these have issued
}

// A place is where clients find a daemon, what to call the process that is there, and whether it is
// this tree's.
type place struct {
	address, name string
	current       bool
}

// connect: what a Sentinel says of a server becomes the address of the daemon's way to it: all ports
// have five digits.
func (redis *set) connect(d *daemon) []string {
	d.ways = map[*redistest.Server]*redistest.Proxy{}
	var names []string
	for _, server := range redis.servers {
		p := redistest.NewProxy(d.t, server.Addr())
		d.ways[server] = p
		_, port, _ := strings.Cut(p.Addr(), ":")
		names = append(names, "\r\n"+strconv.Itoa(server.Port)+"\r\n", "\r\n"+port+"\r\n")
	}
	translate := strings.NewReplacer(names...)
	addresses := []string{d.ways[redis.master].Addr()}
	if redis.replicas > 0 {
		addresses = nil
	}
	for _, s := range redis.sentinels {
		p := redistest.NewProxy(d.t, s.Addr())
		p.Rewrite(func(b []byte) []byte { return []byte(translate.Replace(string(b))) })
		d.sentinels = append(d.sentinels, p)
		addresses = append(addresses, p.Addr())
	}
	return redis.flags(redis.url(addresses))
}

// everyWay does something to all that lies between the daemon and the servers.
func (d *daemon) everyWay(do func(*redistest.Proxy)) {
	for _, p := range d.ways {
		do(p)
	}
	for _, p := range append(d.sentinels, d.members...) {
		do(p)
	}
}

// Write takes in the log, and finds the address in it.
func (d *daemon) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range bytes.Lines(b) { // slog writes a record at a time
		var e struct {
			Msg, Address string
			IDs          int64
		}
		switch err := json.Unmarshal(line, &e); {
		case err == nil && e.Msg == "a copy has ended":
			d.copies.Add(1)
			d.ofThose.Add(e.IDs)
		case err == nil && e.Msg == "listening":
			v := d.version()
			d.at.Store(&place{e.Address, d.name + ", " + v.name + ", at " + e.Address,
				v == d.versions[len(d.versions)-1] && !v.library})
		}
	}
	return d.log.Write(b)
}

// version is what runs now, or ran last.
func (d *daemon) version() version { return d.versions[(d.first+d.starts-1)%len(d.versions)] }

// start starts the next version.
func (d *daemon) start() {
	d.t.Helper()
	d.mu.Lock()
	d.starts++
	path := d.version().path
	d.mu.Unlock()
	d.started = time.Now()
	command := func() *exec.Cmd {
		cmd := exec.Command(path, d.args...)
		cmd.Stderr = d
		return cmd
	}
	var err error
	if d.Child, err = childprocess.StartShifted(command(), d.off); errors.Is(err, errors.ErrUnsupported) {
		d.Child, err = childprocess.Start(command())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// cleanUp kills the process at the end of the test, which tells what it logged last if it has failed.
func (d *daemon) cleanUp() {
	d.t.Cleanup(func() {
		if d.Child == nil {
			return
		}
		d.Kill()
		if d.t.Failed() {
			d.t.Logf("%s logged last:\n%s", d.name, d.log.Tail(80))
		}
	})
}

// end sends a signal that ends the process, and waits for that; one that takes too long to stop is
// killed, which is an error.
func (d *daemon) end(s syscall.Signal) {
	if _, err := d.End(s, 5*lease); err != nil && !errors.Is(err, childprocess.ErrEnded) {
		d.t.Errorf("%s: %v", d.name, err)
	}
}
