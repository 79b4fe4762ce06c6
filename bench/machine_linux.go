package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// describe tells what a reader needs to know of the machine and the programs. What cannot be found
// out is left out.
func describe(on machine, servers string) [][2]string {
	var d [][2]string
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			d = append(d, [2]string{name, value})
		}
	}
	add("date", time.Now().UTC().Format("2006-01-02 15:04 MST"))
	add("processor", processor())
	add("cores", fmt.Sprintf("%d; servers on CPU %d, generator on %v, by %s", runtime.NumCPU(), on.server, on.clients,
		on.driver))
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		add("kernel",
			unix.ByteSliceToString(u.Sysname[:])+" "+unix.ByteSliceToString(u.Release[:])+" "+
				unix.ByteSliceToString(u.Machine[:]))
	}
	add("TCP congestion control", fileText("/proc/sys/net/ipv4/tcp_congestion_control"))
	add("load average at the start", fileText("/proc/loadavg"))
	add("Go", runtime.Version())
	add("source", output("git", "describe", "--always", "--dirty"))
	for _, name := range []string{"memcached", "redis-server"} {
		if server, _, _ := strings.Cut(name, "-"); strings.Contains(servers, server) {
			add(name, output(name, "--version"))
		}
	}
	return d
}

func processor() string {
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "model name") {
			return value
		}
	}
	return ""
}

func fileText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

// output is the first line that a command prints, "" if it fails.
func output(name string, args ...string) string {
	b, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}
