package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// TestProcessUpgradeEncrypted: encrypted connections cannot move. They end in order; plain ones, of a unix
// socket here, go on, and the socket's file stays.
func TestProcessUpgradeEncrypted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if _, err := selfsigned.Write(cert, key, 1); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	u := startUpgradable(t,
		append(onDisk(t), "-worker-id", "34", "-sock", sock, "-redis-port", freePort(t), "-tls-cert", cert, "-tls-key",
			key)...)
	conn := dial(t, "unix", sock)
	r := bufio.NewReader(conn)
	last := get(t, conn, r)
	u.Says(t, "redis listening")
	address, _ := u.Entry("redis listening")["address"].(string)
	encrypted, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	encrypted.SetDeadline(time.Now().Add(5 * time.Minute))
	over := bufio.NewReader(encrypted)
	s := stream{conn: encrypted, resp: true}
	io.WriteString(encrypted, "*2\r\n$3\r\nGET\r\n$2\r\nid\r\n")
	id, err := s.read(over)
	if err != nil {
		t.Fatal(err)
	}
	last = max(last, id)
	u.succeed(t)
	if _, err := over.ReadByte(); err != io.EOF { // that of close_notify: else it is io.ErrUnexpectedEOF, or a reset
		t.Errorf("the encrypted connection ended with %v", err)
	}
	if id := get(t, conn, r); id <= last {
		t.Errorf("id %d after %d", id, last)
	}
	again := dial(t, "unix", sock)
	get(t, again, bufio.NewReader(again))
}

// A caller is a client that makes one request after the other over connections that an upgrade closes.
type caller struct {
	answered, lost atomic.Int64 // requests that had an answer; those that had none when their connection ended
	closed         atomic.Int64 // connections that ended
}

// isClosed reports whether a connection has ended, with nothing else wrong.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// encrypted pipelines over TLS, and connects again when the daemon closes the connection.
func (c *caller) encrypted(t *testing.T, address string, all *census, stop *atomic.Bool) {
	text := strings.Repeat("*2\r\n$3\r\nGET\r\n$2\r\nid\r\n", batch)
	for !stop.Load() {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil && !isClosed(err) {
			t.Errorf("connecting over TLS: %v", err)
			return
		}
		for err == nil && !stop.Load() {
			conn.SetDeadline(time.Now().Add(5 * time.Minute))
			s, r := stream{conn: conn, resp: true}, bufio.NewReader(conn)
			var ids []uint64
			if _, err = io.WriteString(conn, text); err == nil {
				for range batch {
					var id uint64
					if id, err = s.read(r); err != nil {
						break
					}
					ids = append(ids, id)
				}
			}
			all.add(ids)
			c.answered.Add(int64(len(ids)))
			if err != nil {
				c.lost.Add(int64(batch - len(ids)))
				if !isClosed(err) {
					t.Errorf("over TLS: %v", err)
				}
			}
		}
		if conn != nil {
			conn.Close()
		}
		c.closed.Add(1)
	}
}

// remote calls over gRPC.
func (c *caller) remote(t *testing.T, conn *grpc.ClientConn, all *census, stop *atomic.Bool) {
	ids := katsubushipb.NewGeneratorClient(conn)
	for !stop.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		answer, err := ids.Fetch(ctx, nil)
		cancel()
		switch {
		case err == nil:
			all.add([]uint64{answer.GetId()})
			c.answered.Add(1)
		case status.Code(err) == codes.Unavailable: // its connection ended
			c.lost.Add(1)
		default:
			t.Errorf("over gRPC: %v", err)
			return
		}
	}
}

// upgradeUnderLoad upgrades a daemon twice that leases its worker id, under all kinds of clients. Those of
// memcached pipeline on and notice nothing. Those of TLS and gRPC see nothing but connections that end.
func upgradeUnderLoad(t *testing.T, pool []string) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	roots, err := selfsigned.Write(cert, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	sock, grpcPort := filepath.Join(dir, "s"), freePort(t)
	u := startUpgradable(t,
		append(pool, "-sock", sock, "-redis-port", freePort(t), "-grpc-port", grpcPort, "-tls-cert", cert, "-tls-key",
			key)...)
	all := census{lanes: 1}
	var stop atomic.Bool
	var clients sync.WaitGroup
	t.Cleanup(clients.Wait)
	t.Cleanup(func() { stop.Store(true) })
	streams := make([]*stream, 8)
	for i := range streams {
		s := &stream{conn: dial(t, "unix", sock), resp: i%2 == 1}
		streams[i] = s
		clients.Go(func() { s.run(t, &all, &stop) })
	}
	u.Says(t, "redis listening")
	address, _ := u.Entry("redis listening")["address"].(string)
	callers := make([]caller, 8)
	encrypted, remote := callers[:4], callers[4:]
	for i := range encrypted {
		clients.Go(func() { encrypted[i].encrypted(t, address, &all, &stop) })
	}
	for i := range remote {
		conn, err := grpc.NewClient("127.0.0.1:"+grpcPort,
			grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		clients.Go(func() { remote[i].remote(t, conn, &all, &stop) })
	}
	goesOn := func() {
		t.Helper()
		for _, s := range streams {
			s.longest.Store(0)
		}
		for i := range callers {
			before := callers[i].answered.Load()
			await(t, "a client of TLS or gRPC goes on", func() bool { return callers[i].answered.Load() > before || t.Failed() })
		}
		for _, s := range streams {
			await(t, "a client goes on", func() bool { return s.longest.Load() > 0 || t.Failed() })
		}
	}
	goesOn()
	for range 2 {
		if said := u.succeed(t); !strings.Contains(said, "with 8 connections") {
			t.Errorf("not all connections moved: %s", said)
		}
		goesOn()
	}
	stop.Store(true)
	clients.Wait()
	all.verdict(t)
	for i := range callers {
		kind := map[bool]string{true: "TLS", false: "gRPC"}[i < len(encrypted)]
		c := &callers[i]
		t.Logf("%s: %d answered, %d without an answer, %d connections ended", kind, c.answered.Load(), c.lost.Load(),
			c.closed.Load())
	}
}
