//go:build unix

// Command library takes the place of a daemon in the tests of package chaos: it has those flags of the daemon's that
// they give, and answers memcached's get, but the ids are the library's.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/twin"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/etcd"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
	"github.com/katsubushi/katsubushi/v3/workerid/zookeeper"
)

// patience is how long a request waits for ids before it is refused.
const patience = 200 * time.Millisecond

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var terms workerid.Terms
	var shared redis.Config
	flag.StringVar(&shared.URL, "redis", "", "")
	flag.IntVar(&shared.Replicas, "redis-replicas", 0, "")
	store := flag.String("store", "", "")
	flag.DurationVar(&terms.Lease, "lease", 0, "")
	flag.DurationVar(&terms.Heartbeat, "heartbeat", 0, "")
	flag.DurationVar(&terms.MaxSkew, "max-skew", 0, "")
	flag.Uint64Var(&terms.Min, "min-worker-id", 1, "")
	flag.Uint64Var(&terms.Max, "max-worker-id", 1023, "")
	flag.BoolVar(&terms.AutoInit, "lease-auto-init", false, "")
	lanes := flag.Int("lanes", 1, "")
	workers := flag.String("worker-id", "", "")
	dir := flag.String("state-dir", "", "")
	flag.Bool("state-any-disk", false, "")
	bind, port := flag.String("bind", "", ""), flag.String("port", "", "")
	flag.String("log-format", "json", "")
	flag.String("claim", "", "")
	flag.Parse()

	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	c := katsubushi.Config{Log: logger, Lanes: *lanes}
	leased := cas.Settings{URL: *store, Terms: terms}
	switch {
	case *workers != "":
		var a, b uint64
		if _, err := fmt.Sscanf(*workers, "%d-%d", &a, &b); err != nil {
			return err
		}
		all := []uint64{a, b}
		c.Store, c.Lanes = static.Dir(*dir, slices.Compact(all)...), 0
	case shared.URL != "":
		shared.Terms = terms
		c.Store = shared.Provider()
	case strings.HasPrefix(*store, "etcd"):
		c.Store = etcd.Config{Settings: leased}.Provider()
	default:
		c.Store = zookeeper.Config{Settings: leased}.Provider()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	copies := make(chan os.Signal, 1)
	signal.Notify(copies, syscall.SIGUSR1)
	original := twin.New(c.Store)
	if c.Store.Lease != nil {
		c.Store = original.Provider()
	}
	ids, err := katsubushi.Open(ctx, c)
	if err != nil {
		return err
	}
	defer ids.Close()
	listener, err := net.Listen("tcp", net.JoinHostPort(*bind, *port))
	if err != nil {
		return err
	}
	logger.Info("listening", "address", listener.Addr().String())
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for range copies {
			copyOf(ctx, original, logger)
		}
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil // the end
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		go serve(ctx, ids, conn)
	}
}

// ofCopies are ids that copies of this program have issued.
var ofCopies = make(chan uint64, 1000)

// copyOf lets a copy of this program go on for some leases. It asks the store first, or some time later, and issues the
// first and the last ids of each window that it gets. Until it has asked it issues none: those could come twice.
func copyOf(ctx context.Context, of *twin.Original, logger *slog.Logger) {
	const life, pause = 15 * time.Second, 500 * time.Millisecond
	var c *twin.Copy
	issued := 0
	extend := func() {
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		results, err := c.Extend(asked, c.Held)
		if err != nil {
			return
		}
		c.Held = twin.After(c.Held, results)
		for _, r := range results {
			if r.Err == nil {
				issued += issue(r.Grant)
			}
		}
	}
	first := rand.IntN(2) == 0
	err := of.Copy(func(made *twin.Copy) error {
		if c = made; first {
			extend()
		}
		return nil
	})
	if err != nil {
		logger.Info("no copy", "error", err)
		return
	}
	defer c.Close()
	if !first {
		time.Sleep(rand.N(life / 3))
	}
	for end := time.Now().Add(life); time.Now().Before(end) && len(c.Held) > 0; time.Sleep(pause) {
		extend()
	}
	logger.Info("a copy has ended", "first", first, "ids", issued)
}

// issue issues the first and the last ids of a window.
func issue(g workerid.Grant) (n int) {
	s, err := generator.NewSnowflake(generator.Options{
		Layout: generator.Katsubushi(), Worker: g.Worker, Lo: g.Lo, Hi: g.Hi,
	})
	if err != nil {
		return 0 // it is over before it begins
	}
	for _, at := range []int64{g.Lo, g.Hi} {
		run, err := s.Take(at, at, 40)
		for i := 0; i < run.N && err == nil; i++ {
			select {
			case ofCopies <- run.First + uint64(i)*run.Stride:
				n++
			default:
			}
		}
	}
	return n
}

// serve answers lines of "get KEY KEY ..." with an id for each key.
func serve(ctx context.Context, ids *katsubushi.IDs, conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		keys := strings.Fields(lines.Text())[1:]
		asked, cancel := context.WithTimeout(ctx, patience)
		list, err := ids.IDs(asked, len(keys))
		cancel()
		var answer strings.Builder
		for len(ofCopies) > 0 && err == nil {
			list, keys = append(list, <-ofCopies), append(keys, keys[0])
		}
		if err != nil {
			fmt.Fprintf(&answer, "SERVER_ERROR %s\r\n", strings.Join(strings.Fields(err.Error()), " "))
		} else {
			for i, id := range list {
				text := fmt.Sprint(id)
				fmt.Fprintf(&answer, "VALUE %s 0 %d\r\n%s\r\n", keys[i], len(text), text)
			}
			answer.WriteString("END\r\n")
		}
		if _, err := conn.Write([]byte(answer.String())); err != nil {
			return
		}
	}
}
