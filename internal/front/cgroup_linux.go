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

// controlGroups calls visit with the directory of this process's control group that has a controller, and with those
// above it. v1 says that it is of version 1. root is the directory that contains /proc and /sys. In a container, the
// path in /proc may be the host's and not exist; then the top of the mount is the container's own group.
func controlGroups(root, controller string, visit func(dir string, v1 bool)) {
	list, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(list)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":") // number:controllers:path
		controllers, group, ok := strings.Cut(rest, ":")
		v1 := controllers != ""
		switch {
		case !ok, v1 && !strings.Contains(","+controllers+",", ","+controller+","):
			continue
		}
		mount := "sys/fs/cgroup"
		if v1 {
			mount += "/" + controllers
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			visit(filepath.Join(root, mount, group), v1)
			if group == "/" {
				break
			}
		}
	}
}

// readNumbers returns the numbers at the beginning of a file: none if it begins with a word, such as "max".
func readNumbers(dir, name string) (numbers []int64) {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	for word := range strings.FieldsSeq(string(text)) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// memoryLimit returns the lowest memory limit of this process's control groups, in bytes; 0 = no limit, or none that
// can be read.
func memoryLimit(root string) (least int64) {
	controlGroups(root, "memory", func(dir string, v1 bool) {
		file := "memory.max"
		if v1 {
			file = "memory.limit_in_bytes"
		}
		n := readNumbers(dir, file)
		if len(n) > 0 && n[0] > 0 && n[0] < noMemoryLimit && (least == 0 || n[0] < least) {
			least = n[0]
		}
	})
	return least
}

// lessThanOneCPU reports whether a quota of this process's control groups is less than one CPU.
func lessThanOneCPU(root string) (less bool) {
	controlGroups(root, "cpu", func(dir string, v1 bool) {
		n := readNumbers(dir, "cpu.max") // quota and period
		if v1 {
			n = append(readNumbers(dir, "cpu.cfs_quota_us"), readNumbers(dir, "cpu.cfs_period_us")...) // quota -1: none
		}
		less = less || len(n) == 2 && n[0] > 0 && n[0] < n[1]
	})
	return less
}
