//go:build linux

// Command client measures the package client beside gomemcache and rueidis.
//
//	cd bench/client && go run . -into ../RESULTS.md
//
// It is a module of its own, so that whoever uses katsubushi does not get rueidis in go.mod.
//
// It builds the daemon, starts it with four lanes and redis-server on one core, and pins itself to
// another. Each round visits every case for a moment; the figures are medians over the rounds. What is
// compared is CPU time per id, of the client and of the server, as the scheduler charged it: other work
// on the machine changes the ids per second, but hardly that. Do not compare runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/redis/rueidis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	into := flag.String("into", "", "the `file` whose section about clients is replaced; default: stdout")
	rounds := flag.Int("rounds", 7, "`number` of rounds")
	length := flag.Duration("length", time.Second, "of one measurement")
	clientCPU := flag.Int("client-cpu", 0, "`CPU` of this program")
	serverCPU := flag.Int("server-cpu", runtime.NumCPU()-1, "`CPU` of the servers")
	flag.Parse()
	const pinned = "KATSUBUSHI_BENCH_PINNED"
	if os.Getenv(pinned) == "" { // Go counts its processors when it starts
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(*clientCPU), self}, os.Args[1:]...)...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), pinned+"=1"), os.Stdout, os.Stderr
		return cmd.Run()
	}
	dir, err := os.MkdirTemp("", "katsubushi-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	daemon := filepath.Join(dir, "katsubushi")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", daemon, "./cmd/katsubushi")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	cpu := strconv.Itoa(*serverCPU)
	ids, err := start(ctx, "taskset", "-c", cpu, daemon, "-worker-id", "1-4", "-claim", "off", "-state-dir", filepath.Join(dir, "state"), "-bind", "127.0.0.1", "-port", "11911")
	if err != nil {
		return err
	}
	defer ids.stop()
	redis, err := start(ctx, "taskset", "-c", cpu, "redis-server", "--bind", "127.0.0.1", "--port", "11912", "--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", filepath.Join(dir, "log"), "--dir", dir)
	if err != nil {
		return err
	}
	defer redis.stop()
	for _, s := range []struct {
		*server
		addr string
	}{{ids, "127.0.0.1:11911"}, {redis, "127.0.0.1:11912"}} {
		if err := s.await(ctx, s.addr); err != nil {
			return err
		}
	}
	r := results{}
	for range *rounds {
		for _, c := range cases() {
			of := ids
			if c.redis {
				of = redis
			}
			s, err := measure(ctx, c, of, *length)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r[c.name] = append(r[c.name], s)
		}
	}
	text := r.report(*rounds, *length, *clientCPU, *serverCPU)
	if *into == "" {
		fmt.Print(text)
		return nil
	}
	return replace(*into, text)
}

// A server is one that this program started.
type server struct {
	cmd *exec.Cmd
}

func start(ctx context.Context, name string, args ...string) (*server, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return &server{cmd}, cmd.Start()
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// await waits until a server listens.
func (s *server) await(ctx context.Context, addr string) error {
	for range 1000 {
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("no server at " + addr)
}

// cpu is what the scheduler charged to all threads.
func (s *server) cpu() (sum time.Duration, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // it ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n)
	}
	return sum, err
}

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// A case is one client and a number of goroutines that use it.
type aCase struct {
	name       string
	goroutines int
	redis      bool
	// open returns what takes an id, and what ends it.
	open func() (take func(context.Context) (uint64, error), end func(), err error)
}

// prefetch is the stock of a client that has one: the program's goroutines empty it before the scheduler
// looks at the network, so it is as large as one request can be.
const prefetch = 10_000

// key names a case.
func key(what string, goroutines int) string { return fmt.Sprintf("%s, %d", what, goroutines) }

func cases() (list []aCase) {
	for _, n := range []int{1, 100, 1000} {
		for _, c := range []struct {
			name   string
			config client.Config
		}{
			{"client, ids", client.Config{}}, {"client, get", client.Config{GetOnly: true}},
			{"client, ids, prefetch", client.Config{Prefetch: prefetch}}, {"client, get, prefetch", client.Config{Prefetch: prefetch, GetOnly: true}},
		} {
			list = append(list, aCase{name: key(c.name, n), goroutines: n, open: func() (func(context.Context) (uint64, error), func(), error) {
				cl, err := client.New(client.Static("127.0.0.1:11911"), c.config)
				if err != nil {
					return nil, nil, err
				}
				return cl.ID, func() { cl.Close() }, nil
			}})
		}
		list = append(list, aCase{name: key("gomemcache", n), goroutines: n, open: func() (func(context.Context) (uint64, error), func(), error) {
			m := memcache.New("127.0.0.1:11911")
			m.MaxIdleConns, m.Timeout = n, time.Minute
			return func(context.Context) (uint64, error) {
				item, err := m.Get("id")
				if err != nil {
					return 0, err
				}
				return strconv.ParseUint(string(item.Value), 10, 64)
			}, func() { m.Close() }, nil
		}})
		list = append(list, aCase{name: key("rueidis INCR", n), goroutines: n, redis: true, open: func() (func(context.Context) (uint64, error), func(), error) {
			r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:11912"}, DisableCache: true})
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (uint64, error) {
				return r.Do(ctx, r.B().Incr().Key("id").Build()).AsUint64()
			}, r.Close, nil
		}})
	}
	return list
}

// A sample is one measurement; CPU times are ns per id.
type sample struct{ rate, client, server float64 }

// measure has goroutines take ids for a while.
func measure(ctx context.Context, c aCase, s *server, length time.Duration) (sample, error) {
	take, end, err := c.open()
	if err != nil {
		return sample{}, err
	}
	defer end()
	runtime.GC()
	if _, err := load(ctx, c.goroutines, length/10, take); err != nil {
		return sample{}, err
	}
	own, err1 := ownCPU()
	theirs, err2 := s.cpu()
	begin := time.Now()
	n, err3 := load(ctx, c.goroutines, length, take)
	passed := time.Since(begin)
	ownAfter, err4 := ownCPU()
	theirsAfter, err5 := s.cpu()
	per := func(d time.Duration) float64 { return float64(d) / float64(n) }
	return sample{float64(n) / passed.Seconds(), per(ownAfter - own), per(theirsAfter - theirs)}, errors.Join(err1, err2, err3, err4, err5)
}

// load counts the ids that goroutines take.
func load(ctx context.Context, goroutines int, length time.Duration, take func(context.Context) (uint64, error)) (total int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	background := context.Background() // most callers' contexts cost nothing to wait for, and every client gets the same
	end := time.Now().Add(length)
	for range goroutines {
		all.Go(func() {
			n := 0
			var bad error
			for ; bad == nil; n++ {
				if n%64 == 0 && (time.Now().After(end) || ctx.Err() != nil) {
					break
				}
				var id uint64
				if id, bad = take(background); bad == nil && id == 0 {
					bad = errors.New("id 0")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
			err = errors.Join(err, bad)
		})
	}
	all.Wait()
	return total, errors.Join(err, ctx.Err())
}

type results map[string][]sample

func (r results) median(name string, of func(sample) float64) float64 {
	var v []float64
	for _, s := range r[name] {
		v = append(v, of(s))
	}
	slices.Sort(v)
	return v[len(v)/2]
}
