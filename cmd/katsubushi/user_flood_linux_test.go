package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// floodVar makes this program the attackers: "ADDRESS NUMBER".
const floodVar = "FLOOD_OF_LOGINS"

func init() {
	if at, n, ok := strings.Cut(os.Getenv(floodVar), " "); ok {
		number, _ := strconv.Atoi(n)
		floodLogins(at, number)
		os.Exit(0)
	}
}

// startFlood starts a process of attackers, and waits until logins fail. It takes only the processor time
// that nobody else wants, because attackers are on other hosts. stop ends it and returns what it says.
func startFlood(t *testing.T, address string, attackers int) (stop func() string) {
	t.Helper()
	c := exec.Command("nice", "-n", "19", os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", floodVar, address, attackers))
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "logins fail\n" {
		t.Fatalf("the attackers: %q, %v", line, err)
	}
	return func() string {
		in.Close()
		line, _ := said.ReadString('\n')
		if err := c.Wait(); err != nil || !strings.HasSuffix(line, "busy\n") {
			t.Errorf("the attackers: %q, %v", line, err)
		}
		return strings.TrimSpace(line)
	}
}

// floodLogins fails to log in until standard input ends.
func floodLogins(address string, attackers int) {
	var stop atomic.Bool
	var failed, busy atomic.Int64
	var flood sync.WaitGroup
	for i := range attackers {
		flood.Go(func() {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i/250), byte(1+i%250))},
				Timeout: 10 * time.Second}
			for n := 0; !stop.Load(); {
				c, err := from.Dial("tcp", address)
				if err != nil {
					continue
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				for r := bufio.NewReader(c); !stop.Load(); n++ {
					login := fmt.Sprintf("ann guess%d.%d", i, n)
					fmt.Fprintf(c, "set x 0 0 %d\r\n%s\r\n", len(login), login)
					line, err := r.ReadString('\n')
					if err != nil {
						break
					}
					switch {
					case strings.HasPrefix(line, "CLIENT_ERROR authentication failure"):
						if failed.Add(1) == 10 {
							fmt.Println("logins fail")
						}
					case strings.HasPrefix(line, "SERVER_ERROR too many logins"):
						busy.Add(1)
						time.Sleep(10 * time.Millisecond)
					default:
						fmt.Printf("%q\n", line)
						os.Exit(1)
					}
				}
				c.Close()
			}
		})
	}
	io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
	flood.Wait()
	fmt.Printf("%d logins failed, %d were refused as busy\n", failed.Load(), busy.Load())
}

// memory returns what a daemon has in memory, and the processes that it has started.
func memory(t *testing.T, p *process) int {
	t.Helper()
	sum := memoryOf(t, p.Process.Pid, "VmRSS")
	for _, child := range children(p) {
		text, _ := os.ReadFile("/proc/" + child + "/statm") // it may have ended
		if f := strings.Fields(string(text)); len(f) > 2 {
			resident, _ := strconv.Atoi(f[1])
			shared, _ := strconv.Atoi(f[2]) // of the same file
			sum += (resident - shared) * os.Getpagesize()
		}
	}
	return sum
}

// children returns the ids of the processes that a daemon has started.
func children(p *process) (ids []string) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		ids = append(ids, strings.Fields(string(text))...)
	}
	return ids
}

// TestProcessFailedLoginsForEver: connections that fail to log in again and again, each from an address of
// its own so that no limit per address helps, take little memory, and the daemon goes on for those who have
// logged in. KATSUBUSHI_SOAK=1 takes 500 connections for a minute and logs the latencies.
func TestProcessFailedLoginsForEver(t *testing.T) {
	t.Parallel()
	attackers, phase := 25, time.Second/5
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		attackers, phase = 500, 20*time.Second
	}
	file := t.TempDir() + "/users"
	tempfile.Write(t, file, "good:plain\n")
	runUser(t, "secret\n", "add", "ann", "*=get", "-auth-file", file)
	p := start(t, "-worker-id", "1", "-auth-file", file)
	measure := func(what string) (p99 time.Duration) {
		var all []time.Duration
		c := newAsker(t, "tcp", p.Addr())
		if said := c.says("set x 0 0 10", "good plain"); said != "STORED\r\n" {
			t.Fatal(said)
		}
		for end := time.Now().Add(phase); time.Now().Before(end); time.Sleep(time.Millisecond) {
			began := time.Now()
			c.id(t)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		p99 = all[len(all)*99/100]
		t.Logf("%s: %d gets, p50 %v, p99 %v, p99.9 %v, largest %v; resident %d MiB", what, len(all), all[len(all)/2], p99,
			all[len(all)*999/1000], all[len(all)-1], memory(t, p)>>20)
		return p99
	}
	quiet := measure("quiet")
	before := memory(t, p)

	stop := startFlood(t, p.Addr(), attackers)
	await(t, "passwords are compared in another process", func() bool { return len(children(p)) > 0 })
	var flooded []time.Duration
	for range 3 {
		flooded = append(flooded, measure("under the flood"))
	}
	slices.Sort(flooded)
	t.Logf("%d attackers: %s; the median of p99 is %.2f times the quiet one", attackers, stop(),
		float64(flooded[1])/float64(quiet))
	const limit = 64 << 20
	if more := memory(t, p) - before; more > limit {
		t.Errorf("%d MiB more than before: at most %d allowed", more>>20, limit>>20)
	}
	measure("afterwards")
}
