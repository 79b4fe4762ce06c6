package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
)

// The generator pins its process to one core and polls, so the tests run it as a process of its
// own: this binary, told to be the program.
const actAsBench = "BENCH_TEST_ACT_AS_BENCH"

func TestMain(m *testing.M) {
	if os.Getenv(actAsBench) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// bench runs the program.
func bench(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), actAsBench+"=1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

func TestComparisonOfMemcached(t *testing.T) {
	childprocess.Need(t, "memcached")
	out := filepath.Join(t.TempDir(), "RESULTS.md")
	_, stderr, err := bench(t, "-quick", "-servers", "memcached", "-out", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	report, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modes() {
		if m.names > 0 || m.dialect == "get" || m.greedy > 0 || m.via == overHTTP || m.role != alone {
			continue // it has no sequences, no ids at once, no fleet and no HTTP port, and speaks no RESP
		}
		row := "| " + m.title + ": memcached | "
		if m.client == idleClient {
			row = "Resident bytes for each of 200 connections"
		}
		if !strings.Contains(string(report), row) {
			t.Errorf("no row %q", row)
		}
	}
	if strings.Contains(string(report), "was not measured") || t.Failed() {
		t.Errorf("the report:\n%s", report)
	}
	if svg, err := os.ReadFile(filepath.Join(filepath.Dir(out), "results.svg")); err != nil ||
		!bytes.Contains(svg, []byte("memcached")) {
		t.Errorf("the drawing: %v\n%s", err, svg)
	}
}

// TestComparisons: what is in the reports.
func TestComparisons(t *testing.T) {
	addr := answering(t, func(_ string, n int) string { return id(n) })
	for name, c := range map[string]struct {
		need, args string
		want       map[string]int // how often; 1 = at least once
	}{
		"daemon": {"memcached", "-verify -bin " + daemonrun.Program(t) + " -servers memcached,net -modes " +
			"c1,c64,pipelined,multiget,beside-four,many-names,beside-metrics,http,binary,meta,unix,plain,tls,names," +
			"names-multiget,sequence,sequence100,uuid4,uuid7,ulid,objectid,incr,incr-pipelined,resp,idle", map[string]int{
			"| 64 connections, against memcached | ": 1, "| katsubushi net | ": 1,
			" ids of katsubushi were all different; a planted duplicate was found.": 1, "was not measured": 0,
		}},
		// It has no multi-get, no binary protocol, no kinds of id, and is left out with the goroutine client.
		"redis": {"redis-server", "-servers redis -modes " +
			"c64,multiget,binary,unix,plain,tls,names,sequence,uuid7,incr,incr-pipelined,resp,idle",
			map[string]int{": redis | ": 5}},
		"server that already runs": {"", "-verify -against " + addr + " -against-pid " + fmt.Sprint(os.Getpid()) +
			" -modes c1,c16,pipelined -servers=",
			map[string]int{"get, 16 connections: " + addr: 1, "ids of " + addr + " were all different": 1}},
		// The values that a leader issues and those that come through a follower are all different, each in its fleet.
		"fleet": {"etcd", "-verify -servers net -modes leader,follower", map[string]int{
			"| strict order through a follower, 64 connections, p50 against the leader's | ": 1,
			" ids of katsubushi net fleet 2 tickets were all different":                      1}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "fleet" && os.Getenv("KATSUBUSHI_SOAK") != "1" {
				t.Skip("KATSUBUSHI_SOAK=1 runs it: a leader that etcd does not answer for seconds, on a busy machine, ends the run")
			}
			if c.need != "" {
				childprocess.Need(t, c.need)
			}
			stdout, stderr, err := bench(t, append([]string{"-quick"}, strings.Fields(c.args)...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr)
			}
			for text, times := range c.want {
				if n := strings.Count(stdout, text); (n > 0) != (times > 0) || times > 1 && n != times {
					t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, stdout)
				}
			}
		})
	}
}

// answering serves every connection with a function from command line to answer.
func answering(t *testing.T, answer func(line string, n int) string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	lines := make(chan chan int)
	go func() {
		for n := 0; ; n++ {
			reply, ok := <-lines
			if !ok {
				return
			}
			reply <- n
		}
	}()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					n := make(chan int)
					lines <- n
					if _, err := conn.Write([]byte(answer(line, <-n))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func id(n int) string {
	return fmt.Sprintf("VALUE id 0 19\r\n%d\r\nEND\r\n", 1_000_000_000_000_000_000+n)
}

func TestLoadOnOneServer(t *testing.T) {
	addr := answering(t, func(_ string, n int) string { return id(n) })
	cpus, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	twice := fmt.Sprintf("%d,%d", cpus[0], cpus[0]) // one CPU with two loops
	for _, args := range [][]string{
		{"-mode", "pipelined", "-conns", "3", "-depth", "5", "-client-cpus", twice}, {"-mode", "c1", "-client-cpus", twice},
		{"-mode", "c16", "-client", "epoll"}, {"-mode", "plain", "-conns", "2"},
	} {
		stdout, stderr, err := bench(t, append([]string{"load", "-addr", addr, "-duration", "50ms", "-verify"}, args...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		if !strings.Contains(stdout, " requests/s, p50 ") || !strings.Contains(stdout, " ids, all different") {
			t.Errorf("%q: it said %q", args, stdout)
		}
	}
}

// After fifty good answers each of these servers goes wrong in its own way. Both clients must
// notice and say how.
func TestAWrongServerEndsTheRun(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wrong func(n int) string
		want  string
	}{
		{"refusal", func(int) string {
			return "SERVER_ERROR id rate exceeded\r\n"
		}, `got "SERVER_ERROR id rate exceeded\r\n"`},
		{"broken number", func(int) string {
			return "VALUE id 0 19\r\n1234567890x23456789\r\nEND\r\n"
		}, "want a decimal integer"},
		{"duplicate", func(n int) string { return id(n / 2 * 2) }, "duplicate id 10000000000000000"},
		{"two answers for one", func(n int) string { return id(n) + id(n+1<<40) }, "asked for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, client := range [][]string{{"c1"}, {"c1", "-client", "epoll"}, {"plain"}} {
				addr := answering(t, func(_ string, n int) string {
					if n < 50 {
						return id(n)
					}
					return tc.wrong(n)
				})
				_, stderr, err := bench(t,
					append([]string{"load", "-addr", addr, "-conns", "1", "-duration", "10s", "-verify", "-mode"}, client...)...)
				if err == nil || !strings.Contains(stderr, tc.want) {
					t.Errorf("%q: want a failure with %q; got %v, %q", client, tc.want, err, stderr)
				}
			}
		})
	}
}

func TestASettingThatCannotBe(t *testing.T) {
	for _, args := range [][]string{
		{"-servers", "nonesuch"}, {"-modes", "nonesuch"}, {"stray"}, {"-idle-conns", "100000"}, {"-client-cpus", "x"},
		{"-servers", "", "-client", "x"},
		{"load", "-mode", "idle"}, {"load", "-mode", "c1", "-keys", "1000"}, {"load", "-addr", "127.0.0.1:1"},
	} {
		if _, stderr, err := bench(t, args...); err == nil || stderr == "" {
			t.Errorf("%q: %v, %q", args, err, stderr)
		}
	}
}

// The server's CPU clock that the reports rest on is the scheduler's own account.
func TestProcessCPUIsSchedstat(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "load", "-addr", answering(t, func(_ string, n int) string {
		return id(n)
	}), "-duration", "10m")
	cmd.Env = append(os.Environ(), actAsBench+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		low := schedstat(t, cmd.Process.Pid)
		got, err := processCPU(cmd.Process.Pid)
		high := schedstat(t, cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if got > 100*time.Millisecond {
			if got < low || got > high {
				t.Errorf("the CPU clock says %v, schedstat %v before and %v after", got, low, high)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not use its CPU")
		}
	}
}

// schedstat sums the first column of all threads.
func schedstat(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schedstat of process %d: %v", pid, err)
	}
	for _, f := range files {
		var ns int64
		if _, err := fmt.Sscan(fileText(f), &ns); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// TestReportKeepsTheSectionOfClients: bench/client measures at another time.
func TestReportKeepsTheSectionOfClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	if got := clientSection(path); got != nil {
		t.Errorf("of no file: %q", got)
	}
	if err := os.WriteFile(path,
		[]byte("## Old\n\n<!-- clients: x -->\n| 1 |\n<!-- end of clients -->\n\n<!-- gRPC: y -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := string(clientSection(path)),
		"\n<!-- clients: x -->\n| 1 |\n<!-- end of clients -->\n\n<!-- gRPC: y -->\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
