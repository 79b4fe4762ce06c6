package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// beat is the heartbeat of what TestProcessCoordinatorIdle compares.
const beat = 2 * time.Second

// bare tells a process of this binary which store to write to: its kind, a space, and its address.
const bare = "KATSUBUSHI_TEST_BARE"

// startBare starts a process that writes a record to a store each heartbeat, with the library that the daemon
// uses and nothing else: what no daemon that uses it can do without.
func startBare(t *testing.T, kind, addr string) (pid int) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), bare+"="+kind+" "+addr, fmt.Sprint("GOMAXPROCS=", runtime.NumCPU()+1)) // the daemon's
	c.Stderr = os.Stderr
	p, err := childprocess.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return c.Process.Pid
}

// actAsBare is that process.
func actAsBare() bool {
	kind, addr, ok := strings.Cut(os.Getenv(bare), " ")
	if !ok {
		return false
	}
	write, err := bareWriters[kind](addr)
	for n := 0; err == nil; n++ {
		err = write(fmt.Sprintf("%-100d", n))
		time.Sleep(beat)
	}
	fmt.Fprintf(os.Stderr, "%s at %s: %v\n", kind, addr, err)
	os.Exit(1)
	return true
}

// A bareWriter replaces the record, if it is as it was left, and waits for the answer.
type bareWriter func(record string) error

var bareWriters = map[string]func(addr string) (bareWriter, error){
	"redis": func(addr string) (bareWriter, error) {
		c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1})
		compare := goredis.NewScript(`
			if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end
			redis.call('set', KEYS[1], ARGV[2])
			return 1`)
		last := ""
		return func(record string) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			done, err := compare.Run(ctx, c, []string{"bare"}, last, record).Int()
			last = record
			return cmp.Or(err, notDone(done == 1))
		}, nil
	},
	"etcd": func(addr string) (bareWriter, error) {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{addr}, Logger: zap.NewNop(), // fixed windows: the library sends no pings then
			DialOptions: []grpc.DialOption{
				grpc.WithStaticStreamWindowSize(1 << 20), grpc.WithStaticConnWindowSize(1 << 20), grpc.WithIdleTimeout(0),
			},
		})
		last := clientv3.Compare(clientv3.Version("bare"), "=", 0)
		return func(record string) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			r, err := c.Txn(ctx).If(last).Then(clientv3.OpPut("bare", record)).Commit()
			last = clientv3.Compare(clientv3.Value("bare"), "=", record)
			return cmp.Or(err, notDone(err == nil && r.Succeeded))
		}, err
	},
	"zookeeper": func(addr string) (bareWriter, error) {
		c, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
		if err == nil {
			_, err = c.Create("/bare", nil, 0, zk.WorldACL(zk.PermAll))
		}
		version := int32(0)
		return func(record string) error {
			r, err := c.Multi(&zk.SetDataRequest{Path: "/bare", Data: []byte(record), Version: version})
			version++
			return cmp.Or(err, notDone(err == nil && r[0].Error == nil))
		}, err
	},
}

func notDone(done bool) error {
	if done {
		return nil
	}
	return fmt.Errorf("the record was not replaced")
}
