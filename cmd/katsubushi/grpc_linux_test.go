package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// dialGRPC makes a client of one port of loopback.
func dialGRPC(t *testing.T, port string) katsubushipb.GeneratorClient {
	t.Helper()
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return katsubushipb.NewGeneratorClient(conn)
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

func TestProcessHeapOfABusyDaemon(t *testing.T) {
	t.Parallel()
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set")
	}
	port, httpPort := freePort(t), freePort(t)
	start(t, "-worker-id", "1", "-grpc-port", port, "-http-port", httpPort)
	ids, ctx := dialGRPC(t, port), withinMinutes(t)
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
	ids, ctx := dialGRPC(t, port), withinMinutes(t)

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
			s := readStats(t, httpPort)
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
