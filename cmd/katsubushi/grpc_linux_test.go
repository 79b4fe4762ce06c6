package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	resolvers "google.golang.org/grpc/resolver/manual"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// dialGRPC makes a client of one port of loopback, and a function that makes it a client of several.
func dialGRPC(t *testing.T, port string) (conn *grpc.ClientConn, move func(ports ...string)) {
	t.Helper()
	servers := resolvers.NewBuilderWithScheme("test")
	state := func(ports []string) (s resolver.State) {
		for _, p := range ports {
			s.Addresses = append(s.Addresses, resolver.Address{Addr: net.JoinHostPort("127.0.0.1", p)})
		}
		return s
	}
	servers.InitialState(state([]string{port}))
	conn, err := grpc.NewClient("test:///", grpc.WithResolvers(servers),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, func(ports ...string) { servers.UpdateState(state(ports)) }
}

func withinMinutes(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// framesTo connects with frames of the test's own.
func framesTo(t *testing.T, port string) (net.Conn, *http2.Framer) {
	t.Helper()
	c := dial(t, "tcp", net.JoinHostPort("127.0.0.1", port))
	f := http2.NewFramer(c, c)
	io.WriteString(c, http2.ClientPreface)
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // no answer is taken
	return c, f
}

// A daemon that stops under load tells its clients of gRPC to go to another, without a failed call.
func TestProcessGRPC(t *testing.T) {
	t.Parallel()
	ports := []string{freePort(t), freePort(t)}
	httpPort := freePort(t)
	first := start(t, "-worker-id", "1", "-grpc-port", ports[0], "-http-port", httpPort, "-drain-timeout", "1m")
	start(t, "-worker-id", "2", "-grpc-port", ports[1])
	ctx := withinMinutes(t)
	conn, move := dialGRPC(t, ports[0])
	ids := katsubushipb.NewGeneratorClient(conn)
	if os.Getenv("GOGC") == "" {
		await(t, "the heap of a busy daemon is not collected at 4 MB", func() bool {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range 50 {
						ids.Fetch(ctx, nil)
					}
				})
			}
			all.Wait()
			_, _, metrics := httpGet(httpPort, "/metrics")
			return strings.Contains(metrics, "\ngo_gc_gogc_percent ") && !strings.Contains(metrics, "\ngo_gc_gogc_percent 100\n")
		})
	}

	move(ports...) // the connection stays
	watcher, frames := framesTo(t, ports[0])
	goAway := make(chan error, 1)
	go func() {
		defer watcher.Close()
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				goAway <- err
				return
			}
			if g, ok := frame.(*http2.GoAwayFrame); ok && g.ErrCode == http2.ErrCodeNo {
				goAway <- nil
				return
			}
		}
	}()
	var calls [3]atomic.Int64 // by worker id
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				one, err := ids.Fetch(ctx, nil)
				if err != nil {
					t.Error("a call failed:", err)
					return
				}
				calls[one.Id>>12&3].Add(1)
			}
		})
	}
	await(t, "calls", func() bool { return calls[1].Load() > 100 })
	first.Process.Signal(syscall.SIGTERM)
	if err := <-goAway; err != nil {
		t.Error("nobody said that the connection ends:", err)
	}
	await(t, "calls to the other daemon", func() bool { return calls[2].Load() > 100 || t.Failed() })
	<-first.Ended()
	if code := first.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	close(done)
	all.Wait()
}

// Clients that begin 5,000 calls and finish none, three times, do not make the daemon grow beyond a bound. Others are
// answered.
func TestProcessGRPCMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const (
		waves, clients, streams, part = 3, 20, 250, 8 << 10
		most                          = 1 + (16<<20)/(streams*(16<<10+part)) // of them have room
		bound                         = 200 << 20
	)
	port, httpPort := freePort(t), freePort(t)
	p := start(t, "-worker-id", "1", "-grpc-port", port, "-http-port", httpPort, "-max-buffer-memory", "16MiB")
	conn, _ := dialGRPC(t, port)
	ids, ctx := katsubushipb.NewGeneratorClient(conn), withinMinutes(t)

	var all sync.WaitGroup
	var head bytes.Buffer
	encode := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"},
		{":path", katsubushipb.Generator_FetchMulti_FullMethodName}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		encode.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // the same bytes for each call
	}
	begun := append([]byte{0, 0, 0, 0xff, 0xff}, make([]byte, part-5)...)
	for wave := 1; wave <= waves; wave++ {
		for range clients {
			c, f := framesTo(t, port)
			all.Go(func() {
				for i := range uint32(streams) {
					if f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1 + 2*i, BlockFragment: head.Bytes(),
						EndHeaders: true}) != nil || f.WriteData(1+2*i, false, begun) != nil {
						return
					}
				}
			})
			go io.Copy(io.Discard, c)
		}
		all.Wait()
		await(t, "the rest fits", func() bool {
			s := readMemoryStats(t, httpPort)
			// Those of a later wave are refused while what is left of an earlier one is in memory.
			return s.Held <= s.Limit && s.Closed+s.Refused >= clients*wave-most
		})
		if _, err := ids.Fetch(ctx, nil); err != nil {
			t.Error("another client:", err)
		}
	}
	grown := memoryOf(t, p.Process.Pid, "VmHWM")
	t.Logf("%d MiB at the worst", grown>>20)
	if grown > bound {
		t.Errorf("%d MiB at the worst, want at most %d", grown>>20, bound>>20)
	}
}
