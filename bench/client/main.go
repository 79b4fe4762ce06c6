//go:build linux

// Command client measures the package client beside gomemcache and rueidis, and gRPC beside
// kayac/go-katsubushi.
//
//	cd bench/client && go run . -into ../RESULTS.md
//
// It is a module of its own, so that whoever uses katsubushi does not get rueidis in go.mod. So is
// bench/kayac, from which kayac's daemon is built with the versions that it was released with.
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
	into := flag.String("into", "", "the `file` whose sections about clients and gRPC are replaced; default: stdout")
	only := flag.String("only", "", "the `section` to measure, clients or grpc; default: both")
	rounds := flag.Int("rounds", 7, "`number` of rounds")
	length := flag.Duration("length", time.Second, "of one measurement")
	clientCPU := flag.Int("client-cpu", 0, "`CPU` of this program")
	serverCPU := flag.Int("server-cpu", runtime.NumCPU()-1, "`CPU` of the servers")
	flag.Parse()
	const pinned = "KATSUBUSHI_BENCH_PINNED"
	if os.Getenv(pinned) == "" { // Go counts its processors when it starts, and then there is only one
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "taskset",
			append([]string{"-c", strconv.Itoa(*clientCPU), self, "-server-cpu", strconv.Itoa(*serverCPU)}, os.Args[1:]...)...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), pinned+"=1"), os.Stdout, os.Stderr
		return cmd.Run()
	}
	dir, err := os.MkdirTemp("", "katsubushi-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	where := fmt.Sprintf("client on CPU %d, servers on CPU %d", *clientCPU, *serverCPU)
	for _, s := range sections {
		if *only != "" && *only != s.name {
			continue
		}
		servers, stop, err := s.start(ctx, dir, strconv.Itoa(*serverCPU))
		if err != nil {
			return err
		}
		r, err := compare(ctx, s.cases(), servers, *rounds, *length)
		stop()
		if err != nil {
			return err
		}
		load, _ := os.ReadFile("/proc/loadavg")
		text := s.write(r,
			fmt.Sprintf("Medians of %d rounds of %v, %s; %s; load average at the end %s.\n\n", *rounds, *length,
				time.Now().UTC().Format("2006-01-02 15:04 UTC"), where, strings.TrimSpace(string(load))))
		if *into == "" {
			fmt.Print(text)
		} else if err := replace(*into, s, text); err != nil {
			return err
		}
	}
	return nil
}

// compare measures all cases, each round one after the other.
func compare(ctx context.Context, cases []aCase, servers map[string]*server, rounds int, length time.Duration) (results,
	error) {
	r := results{}
	for range rounds {
		for _, c := range cases {
			s, err := measure(ctx, c, servers[c.server], length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			r[c.name] = append(r[c.name], s)
		}
	}
	return r, nil
}

// build builds a program of a module.
func build(ctx context.Context, module, pkg, out string) error {
	if told, err := exec.CommandContext(ctx, "go", "build", "-C", module, "-o", out, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, told)
	}
	return nil
}

// startAll starts servers, by name and address, on a processor, and waits for them.
func startAll(ctx context.Context, cpu string, all []aServer) (servers map[string]*server, stop func(), err error) {
	servers = make(map[string]*server)
	stop = func() {
		for _, s := range servers {
			s.stop()
		}
	}
	for _, a := range all {
		s, err := start(ctx, "taskset", append([]string{"-c", cpu}, a.command...)...)
		if err == nil {
			servers[a.name] = s
			err = s.await(ctx, a.addr)
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
	}
	return servers, stop, nil
}

// An aServer is what to start.
type aServer struct {
	name, addr string
	command    []string
}

// startClients starts the servers of the section about clients.
func startClients(ctx context.Context, dir, cpu string) (map[string]*server, func(), error) {
	daemon := filepath.Join(dir, "katsubushi")
	if err := build(ctx, "../..", "./cmd/katsubushi", daemon); err != nil {
		return nil, nil, err
	}
	return startAll(ctx, cpu, []aServer{
		{ours, "127.0.0.1:11911",
			[]string{daemon, "-worker-id", "1-4", "-claim", "off", "-state-dir", filepath.Join(dir, "state"), "-bind",
				"127.0.0.1", "-port", "11911"}},
		{redis, "127.0.0.1:11912",
			[]string{"redis-server", "--bind", "127.0.0.1", "--port", "11912", "--save", "", "--appendonly", "no", "--daemonize",
				"no", "--logfile", filepath.Join(dir, "log"), "--dir", dir}},
	})
}

// The servers.
const (
	ours  = "katsubushi"
	redis = "redis"
	kayac = "kayac"
)

// A section is a part of the report, with the cases that belong to it.
type section struct {
	name, begin, end string // it begins and ends with these lines; bench keeps what is between
	start            func(ctx context.Context, dir, cpu string) (servers map[string]*server, stop func(), err error)
	cases            func() []aCase
	write            func(r results, how string) string
}

var sections = []section{
	{"clients", "<!-- clients: written by bench/client -->\n", "<!-- end of clients -->\n", startClients, cases,
		results.reportClients},
	{"grpc", "<!-- gRPC: written by bench/client -->\n", "<!-- end of gRPC -->\n", startGRPC, grpcCases,
		results.reportGRPC},
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
	server     string
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
			{"client, ids, prefetch", client.Config{Prefetch: prefetch}},
			{"client, get, prefetch", client.Config{Prefetch: prefetch, GetOnly: true}},
		} {
			list = append(list,
				aCase{name: key(c.name, n), goroutines: n, server: ours,
					open: func() (func(context.Context) (uint64, error), func(), error) {
						cl, err := client.New(client.Static("127.0.0.1:11911"), c.config)
						if err != nil {
							return nil, nil, err
						}
						return cl.ID, func() { cl.Close() }, nil
					}})
		}
		list = append(list,
			aCase{name: key("gomemcache", n), goroutines: n, server: ours,
				open: func() (func(context.Context) (uint64, error), func(), error) {
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
		list = append(list,
			aCase{name: key("rueidis INCR", n), goroutines: n, server: redis,
				open: func() (func(context.Context) (uint64, error), func(), error) {
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
	return sample{float64(n) / passed.Seconds(), per(ownAfter - own), per(theirsAfter - theirs)},
		errors.Join(err1, err2, err3, err4, err5)
}

// load counts the ids that goroutines take.
func load(ctx context.Context, goroutines int, length time.Duration,
	take func(context.Context) (uint64, error)) (total int, err error) {
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
