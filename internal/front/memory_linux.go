package front

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// noMemoryLimit is more than any machine has: control groups version 1 write a similar number for
// "no limit".
const noMemoryLimit = 1 << 60

// memoryLimit returns the lowest memory limit of this process's control group and those above it,
// in bytes; 0 = no limit, or none that can be read. root is the directory that contains /proc and
// /sys. In a container, the path in /proc may be the host's and not exist; then the top of the
// mount is the container's own group.
func memoryLimit(root string) (least int64) {
	list, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(list)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":") // number:controllers:path
		controllers, group, ok := strings.Cut(rest, ":")
		mount, file := "sys/fs/cgroup", "memory.max"
		switch {
		case !ok:
			continue
		case controllers == "memory":
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			text, _ := os.ReadFile(filepath.Join(root, mount, group, file))
			limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no limit
			if err == nil && limit > 0 && limit < noMemoryLimit && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
