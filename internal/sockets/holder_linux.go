package sockets

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listens is how the kernel writes that a TCP socket listens.
const listens = "0A"

// Holder says who listens on a TCP port of this host, as far as the kernel shows that to this user: the process, or
// else the user.
func Holder(port int) string {
	for _, list := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(list)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // sl, local address, remote address, state, 3 more, uid, timeout, inode
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == listens {
				return owner(f[7], "socket:["+f[9]+"]")
			}
		}
	}
	return "unknown"
}

// owner names the process that has a socket open. Other users' processes do not show that, but to root.
func owner(uid, socket string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	for _, file := range files {
		if to, _ := os.Readlink(file); to != socket {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		name, _ := os.ReadFile(process + "/comm")
		pid, _ := strconv.Atoi(filepath.Base(process))
		return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
	}
	return "a process of user " + uid
}
