package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// compiled returns the packages that the processes of a go command compile or link at this moment, sorted. It
// reads /proc; on a system that has none it returns nothing.
func compiled(goCommand int) (packages []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		name := packageOf(bytes.Split(text, []byte{0}))
		if name != "" && !slices.Contains(packages, name) && parent(filepath.Dir(file)) == goCommand {
			packages = append(packages, name)
		}
	}
	slices.Sort(packages)
	return packages
}

// packageOf returns what a command line compiles or links, or "".
func packageOf(args [][]byte) string {
	switch filepath.Base(string(args[0])) {
	case "compile", "asm":
		if i := slices.IndexFunc(args, func(a []byte) bool { return string(a) == "-p" }); i >= 0 && i+1 < len(args) {
			return string(args[i+1])
		}
	case "link":
		return "a test program" // the name of its file says no more
	}
	return ""
}

// parent returns the parent of a process by its directory in /proc, or 0.
func parent(dir string) int {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
	_, after, _ := bytes.Cut(stat, []byte(") ")) // the name before may have spaces
	fields := bytes.Fields(after)
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(string(fields[1]))
	return pid
}
