package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestProcessFailedLoginsForEver: connections that fail to log in again and again, each from an address of
// its own so that no limit per address helps, take little memory, and the daemon goes on for those who have
// logged in. KATSUBUSHI_SOAK=1 takes 500 connections for a minute and logs the latencies.
func TestProcessFailedLoginsForEver(t *testing.T) {
	t.Parallel()
	attackers, phase := 100, time.Second
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		attackers, phase = 500, 20*time.Second
	}
	file := t.TempDir() + "/users"
	if err := os.WriteFile(file, []byte("good:plain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runUser(t, "secret\n", "add", "ann", "*=get", "-auth-file", file)
	p := start(t, "-worker-id", "1", "-auth-file", file)
	measure := func(what string) {
		var all []time.Duration
		c := dial(t, "tcp", p.addr)
		r := bufio.NewReader(c)
		fmt.Fprint(c, "set x 0 0 10\r\ngood plain\r\n")
		r.ReadString('\n')
		for end := time.Now().Add(phase); time.Now().Before(end); time.Sleep(time.Millisecond) {
			began := time.Now()
			fmt.Fprint(c, "get id\r\n")
			for line := ""; line != "END\r\n"; {
				var err error
				if line, err = r.ReadString('\n'); err != nil || strings.Contains(line, "ERROR") {
					t.Fatalf("%s: %q %v", what, line, err)
				}
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		t.Logf("%s: %d gets, p50 %v, p99 %v, p99.9 %v, largest %v; resident %d MiB", what, len(all), all[len(all)/2], all[len(all)*99/100],
			all[len(all)*999/1000], all[len(all)-1], p.rss(t)>>20)
	}
	measure("quiet")
	before := p.rss(t)

	var stop atomic.Bool
	var failed, busy atomic.Int64
	var flood sync.WaitGroup
	for i := range attackers {
		flood.Go(func() {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i/250), byte(1+i%250))}, Timeout: 10 * time.Second}
			for n := 0; !stop.Load(); {
				c, err := from.Dial("tcp", p.addr)
				if err != nil {
					continue
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				for r := bufio.NewReader(c); !stop.Load(); n++ {
					login := fmt.Sprintf("ann guess%d", n)
					fmt.Fprintf(c, "set x 0 0 %d\r\n%s\r\n", len(login), login)
					line, err := r.ReadString('\n')
					if err != nil {
						break
					}
					switch {
					case strings.HasPrefix(line, "CLIENT_ERROR authentication failure"):
						failed.Add(1)
					case strings.HasPrefix(line, "SERVER_ERROR too many logins"):
						busy.Add(1)
						time.Sleep(10 * time.Millisecond)
					default:
						t.Errorf("%q", line)
						return
					}
				}
				c.Close()
			}
		})
	}
	await(t, "logins fail", func() bool { return failed.Load() > 10 })
	for range 3 {
		measure("under the flood")
	}
	stop.Store(true)
	flood.Wait()
	t.Logf("%d attackers: %d logins failed, %d were refused as busy", attackers, failed.Load(), busy.Load())
	const limit = 64 << 20
	if more := p.rss(t) - before; more > limit {
		t.Errorf("%d MiB more than before: at most %d allowed", more>>20, limit>>20)
	}
	measure("afterwards")
}
