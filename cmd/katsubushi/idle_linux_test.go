package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestProcessIdleFigures measures what the docs tell of a daemon with state files that nobody asks. It takes minutes,
// so it runs when it is asked for:
//
//	KATSUBUSHI_IDLE_FIGURES=1 go test ./cmd/katsubushi -run TestProcessIdleFigures -v
//
// KATSUBUSHI_BEFORE names another katsubushi to measure beside this one. On a busy machine the figures are larger.
func TestProcessIdleFigures(t *testing.T) {
	if os.Getenv("KATSUBUSHI_IDLE_FIGURES") == "" {
		t.Skip("KATSUBUSHI_IDLE_FIGURES is not set")
	}
	const settles, span = 10 * time.Second, 30 * time.Second
	t.Logf("%-10s %-12s %-8s %10s %10s %10s", "", "worker ids", "engine", "switches/s", "ms/s", "RSS in MiB")
	for _, workers := range []string{"1", "1-64"} {
		for _, engine := range availableEngines(t) {
			for _, program := range []string{os.Getenv("KATSUBUSHI_BEFORE"), binary} {
				if program == "" {
					continue
				}
				name := map[bool]string{true: "this one", false: "before"}[program == binary]
				port := freePort(t)
				measureProgram(t, name, func(name string, pid int, _ string) {
					time.Sleep(settles)
					before, cpu := sumOfThreads(t, pid)
					time.Sleep(span)
					after, cpuAfter := sumOfThreads(t, pid)
					t.Logf("%-10s %-12s %-8s %10.1f %10.2f %10d", name, workers, engine,
						float64(after-before)/span.Seconds(), float64(cpuAfter-cpu)/1e6/span.Seconds(),
						memoryOf(t, pid, "VmRSS")>>20)
				}, port, program, "-worker-id", workers, "-claim", "off", "-bind", "127.0.0.1", "-port", port,
					"-engine", engine, "-http-port", freePort(t), "-state-dir", t.TempDir(), "-state-any-disk",
					"-log-level", "error")
			}
		}
	}
}

// sumOfThreads returns how often all threads of a process have waited, and their CPU time in ns.
func sumOfThreads(t *testing.T, pid int) (switches, cpu int64) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	read := func(path, pattern string) int64 {
		text, _ := os.ReadFile(path) // a thread may have ended
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			return 0
		}
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		return n
	}
	for _, thread := range threads {
		switches += read(filepath.Join(thread, "status"), `\nvoluntary_ctxt_switches:\s+(\d+)`)
		cpu += read(filepath.Join(thread, "schedstat"), `^(\d+)`)
	}
	return switches, cpu
}
