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
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3"
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
		c.Store, c.Lanes = static.Dir(*dir, a, b), 0
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
	for {
		conn, err := listener.Accept()
		if err != nil {
			return nil // the end
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		go serve(ctx, ids, conn)
	}
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
