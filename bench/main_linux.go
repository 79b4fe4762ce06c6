package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "load" {
		return runLoad(ctx, args[1:])
	}
	if len(args) == 2 && args[0] == bareHTTP {
		return serveBareHTTP(args[1])
	}
	return runCompare(ctx, args)
}

// A machine is where the generator and the servers run, and how the generator drives its connections.
type machine struct {
	clients []int
	server  int
	driver  string // auto until settle: then uring or epoll
}

func (m *machine) flags(fs *flag.FlagSet) {
	fs.Func("client-cpus", "`CPUs` of the generator, comma-separated (default the first allowed)", func(s string) error {
		m.clients = nil
		for _, f := range strings.Split(s, ",") {
			n, err := strconv.Atoi(f)
			if err != nil {
				return err
			}
			m.clients = append(m.clients, n)
		}
		return nil
	})
	fs.IntVar(&m.server, "server-cpu", -1, "`CPU` of the servers (default the last allowed)")
	fs.StringVar(&m.driver, "client", "auto",
		"what the generator moves its bytes with: uring, epoll, or auto: uring where it is allowed")
}

// settle fills in what the flags left open and pins this process.
func (m *machine) settle() error {
	allowed, err := allowedCPUs()
	if err != nil {
		return err
	}
	if len(m.clients) == 0 {
		m.clients = allowed[:1]
	}
	if m.server < 0 {
		m.server = allowed[len(allowed)-1]
	}
	if slices.Contains(m.clients, m.server) {
		fmt.Fprintf(os.Stderr, "bench: generator and server share CPU %d: the figures mean little\n", m.server)
	}
	switch m.driver {
	case "uring", "epoll":
	case "auto":
		m.driver = "uring"
		if err := probeRing(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: the generator uses epoll and may be slower than the servers: %v\n", err)
			m.driver = "epoll"
		}
	default:
		return fmt.Errorf("-client %s: want uring, epoll or auto", m.driver)
	}
	// A polling thread never gives up its P; one more is for everything else.
	runtime.GOMAXPROCS(len(m.clients) + 1)
	return pinProcess(m.clients...)
}

// newDriver makes the driver of one loop.
func (m *machine) newDriver() driver {
	if m.driver == "uring" {
		return &uringDriver{}
	}
	return &epollDriver{}
}

// runLoad aims one mode at one server that already runs.
func runLoad(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench load", flag.ContinueOnError)
	addr := fs.String("addr", "127.0.0.1:11212", "`host:port`, or the path of a unix socket")
	speech := fs.String("speech", "memcached", "memcached or redis (INCR)")
	name := fs.String("mode", "c64", "one of "+modeNames())
	conns := fs.Int("conns", 0, "connections, instead of the mode's")
	depth := fs.Int("depth", 0, "requests sent at once on a connection, instead of the mode's")
	keys := fs.Int("keys", 0, "keys of a get, instead of the mode's")
	duration := fs.Duration("duration", 5*time.Second, "how long; each second is reported")
	pid := fs.Int("pid", 0, "the server's process, for its CPU time")
	verify := fs.Bool("verify", false, "check that all ids differ")
	var on machine
	on.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	chosen, err := chooseModes(*name)
	if err != nil {
		return err
	}
	m := chosen[0]
	m.conns, m.depth, m.keys = orDefault(*conns, m.conns), orDefault(*depth, m.depth), orDefault(*keys, m.keys)
	if m.keys > 1 && m.keys > multiKeys {
		return fmt.Errorf("at most %d keys", multiKeys)
	}
	at := endpoint{via: overTCP, address: *addr}
	if m.via == overHTTP {
		at.via = overHTTP
	}
	if strings.Contains(*addr, "/") {
		at.via = overUnix
	}
	if m.client == idleClient || m.via == overTLS {
		return fmt.Errorf("mode %s is only for comparisons", m.name)
	}
	if err := on.settle(); err != nil {
		return err
	}
	pr := &process{at: at, pid: *pid}
	if err := pr.prime(peer{speech: *speech}); err != nil {
		return err
	}
	g := &generator{cpus: on.clients, serverCPU: -1, driver: on.newDriver, base: time.Now(), warm: 100 * time.Millisecond}
	ld := load{mode: m, to: at, speech: *speech, pid: *pid}
	if *verify {
		if !pr.issues {
			return errors.New("-verify: the server answers every get with the same value")
		}
		ld.ids = &unique.Set{}
	}
	for left := *duration; left > 0 && ctx.Err() == nil; left -= g.length {
		g.length = min(left, time.Second)
		s, err := g.window(ld)
		if err != nil {
			return err
		}
		fmt.Println(s)
	}
	if ld.ids != nil {
		fmt.Printf("%d ids, all different\n", ld.ids.Len())
		return ld.ids.Plant()
	}
	return nil
}
