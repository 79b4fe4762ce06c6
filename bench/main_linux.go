package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	return runCompare(ctx, args)
}

// cores is where the generator and the servers run.
type cores struct {
	client []int
	server int
}

func (c *cores) flags(fs *flag.FlagSet) {
	c.server = -1
	fs.Func("client-cpus", "`CPUs` of the generator, comma-separated (default the first allowed)", func(s string) error {
		c.client = nil
		for _, f := range strings.Split(s, ",") {
			n, err := strconv.Atoi(f)
			if err != nil {
				return err
			}
			c.client = append(c.client, n)
		}
		return nil
	})
	fs.IntVar(&c.server, "server-cpu", c.server, "`CPU` of the servers (default the last allowed)")
}

// settle fills in what the flags left open and pins this process.
func (c *cores) settle() error {
	allowed, err := allowedCPUs()
	if err != nil {
		return err
	}
	if len(c.client) == 0 {
		c.client = allowed[:1]
	}
	if c.server < 0 {
		c.server = allowed[len(allowed)-1]
	}
	for _, cpu := range c.client {
		if cpu == c.server {
			fmt.Fprintf(os.Stderr, "bench: generator and server share CPU %d: the figures mean little\n", cpu)
		}
	}
	// A polling thread never gives up its P; one more is for everything else.
	runtime.GOMAXPROCS(len(c.client) + 1)
	return pinProcess(c.client...)
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
	var where cores
	where.flags(fs)
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
	at := endpoint{overTCP, *addr}
	if strings.Contains(*addr, "/") {
		at.via = overUnix
	}
	if m.client == idleClient || m.via == overTLS {
		return fmt.Errorf("mode %s is only for comparisons", m.name)
	}
	if err := where.settle(); err != nil {
		return err
	}
	pr := &process{at: at, pid: *pid}
	if err := pr.prime(*speech); err != nil {
		return err
	}
	g := &generator{cpus: where.client, serverCPU: -1, base: time.Now(), warm: 100 * time.Millisecond}
	ld := load{mode: m, to: at, speech: *speech, pid: *pid}
	if *verify {
		if !pr.issues {
			return errors.New("-verify: the server answers every get with the same value")
		}
		ld.ids = newIDSet()
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
		fmt.Printf("%d ids, all different\n", ld.ids.ids)
		return ld.ids.plant()
	}
	return nil
}
