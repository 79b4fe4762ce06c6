package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// options are the flags of a comparison.
type options struct {
	out, binary, servers, modes   string
	against                       string
	againstPID                    int
	rounds, idleRounds, idleConns int
	window, warm                  time.Duration
	quick, verify                 bool
	on                            machine
}

const (
	ourEngines = "uring,epoll,net"
	allServers = "memcached,redis,floor-epoll,floor-uring,kayac,floor-http," + ourEngines
)

func parseOptions(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.out, "out", "",
		"`file` for the report, with results.svg beside it (default: standard output, no drawing)")
	fs.StringVar(&o.binary, "bin", "",
		"the daemon's `program` (default: build ./cmd/katsubushi of the module that encloses the working directory)")
	fs.StringVar(&o.servers, "servers", allServers,
		"servers to compare; uring, epoll and net are the daemon's engines, epoll@`program` is one of another build")
	fs.StringVar(&o.modes, "modes", "", "modes, of "+modeNames()+" (default all)")
	fs.StringVar(&o.against, "against", "",
		"`host:port` of one more server that speaks memcached's text protocol and already runs")
	fs.IntVar(&o.againstPID, "against-pid", 0, "its `process`, for its CPU time; without it that is unknown")
	fs.IntVar(&o.rounds, "rounds", 17, "rounds over all modes and servers")
	fs.IntVar(&o.idleRounds, "idle-rounds", 3, "fresh processes of each server whose idle connections are weighed")
	fs.IntVar(&o.idleConns, "idle-conns", 10000, "idle connections")
	fs.DurationVar(&o.window, "window", 300*time.Millisecond, "length of a window")
	fs.DurationVar(&o.warm, "warm", 60*time.Millisecond, "load before each window")
	fs.BoolVar(&o.quick, "quick", false,
		"one round of 40 ms windows and 200 idle connections, to see that everything works")
	fs.BoolVar(&o.verify, "verify", false, "check that the ids of each server differ; costs the generator time")
	o.on.flags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.quick {
		o.rounds, o.idleRounds, o.idleConns, o.window, o.warm = 1, 1, 200, 40*time.Millisecond, 10*time.Millisecond
	}
	if o.idleConns+idleBase > maxConns {
		return nil, fmt.Errorf("at most %d idle connections", maxConns-idleBase)
	}
	return o, nil
}

// A comparison is one run over all modes and servers.
type comparison struct {
	*options
	dir     string // of sockets, logs, certificate and program
	trust   *tls.Config
	gen     *generator
	peers   []peer
	running map[string]*process    // by server, transport and number of names; nil for one that did not start
	ids     map[string]*unique.Set // by server, with -verify; all of ours are one
	res     *results
}

func runCompare(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &comparison{options: o, dir: dir, running: map[string]*process{}, ids: map[string]*unique.Set{}}
	if err := c.prepare(); err != nil {
		return err
	}
	defer c.stopAll()
	if err := c.measure(ctx); err != nil {
		return err
	}
	if err := c.checkIDs(); err != nil {
		return err
	}
	return c.report()
}

// prepare builds and chooses everything before the first measurement.
func (c *comparison) prepare() (err error) {
	if c.trust, err = makeCertificate(c.dir); err != nil {
		return err
	}
	c.res = &results{rounds: c.rounds, window: c.window, windows: map[cell]map[int]sample{}, idle: map[string][]float64{}}
	if c.res.modes, err = chooseModes(c.modes); err != nil {
		return err
	}
	for i := range c.res.modes {
		if c.res.modes[i].client == idleClient {
			c.res.modes[i].conns = c.idleConns
		}
	}
	if err := c.choosePeers(); err != nil {
		return err
	}
	if err := c.on.settle(); err != nil {
		return err
	}
	c.gen = &generator{cpus: c.on.clients, serverCPU: c.on.server, driver: c.on.newDriver, base: time.Now(), warm: c.warm,
		length: c.window}
	c.res.machine = describe(c.on, c.servers)
	return nil
}

// choosePeers makes the list of servers, building ours if they are on it.
func (c *comparison) choosePeers() error {
	worker := 1
	nextWorker := func() int {
		if worker += 4; worker+3 > 1023 { // the largest that there is
			worker = 1
		}
		return worker
	}
	for _, name := range strings.Split(c.servers, ",") {
		engine, program, other := strings.Cut(name, "@")
		switch {
		case name == "": // -against alone
		case name == "memcached":
			c.peers = append(c.peers, memcachedPeer())
		case name == "redis":
			c.peers = append(c.peers, redisPeer())
		case name == "floor-epoll" || name == "floor-uring":
			p := floorPeer(strings.TrimPrefix(name, "floor-"))
			if err := buildFloor(strings.TrimPrefix(name, "floor-"), c.dir); err != nil {
				c.res.notes = append(c.res.notes, oneLine(err))
				break
			}
			c.peers = append(c.peers, p)
		case name == "kayac":
			if err := c.buildModule("bench/kayac", "github.com/kayac/go-katsubushi/v2/cmd/katsubushi", name); err != nil {
				c.res.notes = append(c.res.notes, oneLine(err))
				break
			}
			c.peers = append(c.peers, kayacPeer())
		case name == "floor-http":
			c.peers = append(c.peers, bareHTTPPeer())
		case slices.Contains(strings.Split(ourEngines, ","), engine):
			if other {
				c.peers = append(c.peers, oursPeer(name, program, engine, nextWorker))
				break
			}
			if err := c.build(); err != nil {
				return err
			}
			c.peers = append(c.peers, oursPeer(name, c.binary, engine, nextWorker))
		default:
			return fmt.Errorf("no server %q; there are %s", name, allServers)
		}
	}
	if c.against != "" {
		c.peers = append(c.peers,
			peer{name: c.against, speech: "memcached", attach: &process{pid: c.againstPID,
				at: endpoint{via: overTCP, address: c.against}}})
	}
	if len(c.peers) == 0 {
		return errors.New("-servers: nothing to measure")
	}
	last := -1 // of ours: TLS is served by one engine, whichever serves the rest
	for i, p := range c.peers {
		c.res.servers = append(c.res.servers, p.name)
		if p.ours {
			c.res.ours = append(c.res.ours, p.name)
			last = i
		} else {
			c.peers[i].viaGo = p.speech == "memcached" && !p.canned
		}
	}
	if last >= 0 {
		c.peers[last].viaGo = true
	}
	return nil
}

// build builds the daemon unless a program was given or is built already.
func (c *comparison) build() error {
	if c.binary != "" {
		return nil
	}
	c.binary = filepath.Join(c.dir, "katsubushi")
	return c.buildModule(".", "./cmd/katsubushi", "katsubushi")
}

// buildModule builds a program of a module in this one's tree, into the directory of the run.
func (c *comparison) buildModule(module, pkg, name string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(c.dir, name), pkg)
	cmd.Dir = filepath.Join(string(bytes.TrimSpace(root)), module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// takes tells whether a peer takes part in a mode.
func (c *comparison) takes(p peer, m mode) bool {
	if newDialect(m, p.speech, idCheck{}) == nil || (m.client == goClient && !p.viaGo) {
		return false
	}
	if (m.scraped || m.role != alone) && !p.ours {
		return false
	}
	if m.greedy > 0 && !p.ours && p.attach == nil {
		return false
	}
	if p.canned && (m.depth > 1 || m.keys > 1 || m.names > 0 || m.dialect != "text") {
		return false
	}
	if !p.ours &&
		(m.names > 0 && !(p.speech == "redis" && m.dialect == "incr") || p.speech != "redis" &&
			(m.dialect == "incr" || m.dialect == "get")) {
		return false
	}
	if p.attach != nil {
		return m.via == overTCP && (m.client != idleClient || p.attach.pid > 0)
	}
	return p.command(endpoint{via: m.via}, 0, c.dir) != nil
}

// measure goes through the rounds.
func (c *comparison) measure(ctx context.Context) error {
	for round := range c.rounds {
		start := time.Now()
		for _, m := range c.res.modes {
			for i := range c.peers {
				p := c.peers[(i+round)%len(c.peers)]
				if m.client == idleClient || !c.takes(p, m) {
					continue
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := c.one(round, p, m); err != nil {
					return fmt.Errorf("%s, %s: %w", p.name, m.title, err)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %.1f s\n", round+1, c.rounds, time.Since(start).Seconds())
	}
	i := slices.IndexFunc(c.res.modes, func(m mode) bool { return m.client == idleClient })
	if i < 0 {
		return nil
	}
	for range c.idleRounds {
		for _, p := range c.peers {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.idle(p, c.res.modes[i]); err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, c.res.modes[i].title, err)
			}
		}
	}
	return nil
}

// one measures one window.
func (c *comparison) one(round int, p peer, m mode) error {
	pr := c.process(p, m)
	if pr == nil {
		return nil
	}
	ld := load{mode: m, to: pr.at, trust: c.trust, speech: p.speech, pid: pr.pid, shares: pr.shares}
	if c.verify && pr.issues {
		ld.ids = c.seen(p, m)
	}
	s, err := c.gen.window(ld)
	if err != nil {
		return err
	}
	at := cell{m.name, p.name}
	if c.res.windows[at] == nil {
		c.res.windows[at] = map[int]sample{}
	}
	c.res.windows[at][round] = s
	return nil
}

// seen is the set of ids that a server has issued. The daemon's processes have worker ids of their
// own, so they share one; but each has sequences of its own.
func (c *comparison) seen(p peer, m mode) *unique.Set {
	name := p.name
	switch {
	case m.role != alone:
		name += fmt.Sprint(" fleet ", m.role, " ", m.key)
	case m.key == "orders":
		name += " orders"
	case p.ours:
		name = "katsubushi"
	}
	if c.ids[name] == nil {
		c.ids[name] = &unique.Set{}
	}
	return c.ids[name]
}

// idle weighs the idle connections of a fresh process.
func (c *comparison) idle(p peer, m mode) error {
	if !c.takes(p, m) {
		return nil
	}
	pr := p.attach
	if pr == nil {
		if c.process(p, m) == nil { // it did not start before
			return nil
		}
		var err error
		if pr, err = p.start(m.via, m.names, c.on.server, c.dir, c.trust); err != nil {
			return err
		}
		defer pr.stop()
	}
	v, err := idle(load{mode: m, to: pr.at, speech: p.speech, pid: pr.pid})
	if err != nil {
		return err
	}
	c.res.idle[p.name] = append(c.res.idle[p.name], v)
	return nil
}

// process is a peer's running server; nil, with a note in the report, if it does not start.
func (c *comparison) process(p peer, m mode) *process {
	via, names := m.via, 0
	if p.ours {
		names = m.names
	}
	key := fmt.Sprint(p.name, " ", via, " ", names, " ", m.role)
	if pr, ok := c.running[key]; ok {
		return pr
	}
	pr, err := p.attach, error(nil)
	if m.role != alone {
		pr, err = p.startFleet(m.role, c.on.server, c.dir)
	} else if pr == nil {
		pr, err = p.start(via, names, c.on.server, c.dir, c.trust)
	} else {
		err = pr.prime(p)
	}
	if err != nil {
		pr = nil
		note := fmt.Sprintf("%s over %s with %d names was not measured: %s", p.name, via, names, oneLine(err))
		fmt.Fprintln(os.Stderr, "bench:", note)
		c.res.notes = append(c.res.notes, note)
	}
	c.running[key] = pr
	return pr
}

// oneLine is an error's text for a list of notes.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (c *comparison) stopAll() {
	for _, pr := range c.running {
		if pr != nil {
			pr.stop()
		}
	}
}

// checkIDs proves that the search for duplicates would have found one.
func (c *comparison) checkIDs() error {
	for name, set := range c.ids {
		if err := set.Plant(); err != nil {
			return err
		}
		c.res.notes = append(c.res.notes,
			fmt.Sprintf("%d ids of %s were all different; a planted duplicate was found.", set.Len(), name))
	}
	return nil
}

// clientSection is what bench/client wrote at the end of a report, if it did.
func clientSection(path string) []byte {
	old, err := os.ReadFile(path)
	if i := bytes.Index(old, []byte("<!-- clients:")); err == nil && i >= 0 {
		return append([]byte("\n"), old[i:]...)
	}
	return nil
}

// report writes what was found.
func (c *comparison) report() error {
	if c.out == "" {
		return c.res.write(os.Stdout, "")
	}
	const drawing = "results.svg"
	var text, svg bytes.Buffer
	err := errors.Join(c.res.write(&text, drawing), c.res.writeChart(&svg))
	if err != nil {
		return err
	}
	os.Stdout.Write(text.Bytes())
	text.Write(clientSection(c.out))
	return errors.Join(
		os.WriteFile(c.out, text.Bytes(), 0o644),
		os.WriteFile(filepath.Join(filepath.Dir(c.out), drawing), svg.Bytes(), 0o644))
}
