package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// freeStartup gives back the memory that only the start needed: garbage, and pages of the program's file. The kernel
// maps a page again when it is used, from its cache.
func freeStartup() {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchangedMappings(string(text), program) {
		// an error leaves the pages where they are
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// A mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchangedMappings returns the mappings of a file that cannot be written to and have no pages of their own. Others
// must not be dropped: the dynamic linker writes addresses into pages and protects them afterwards, and a debugger
// writes into code.
func unchangedMappings(smaps, file string) (list []mapping) {
	var m mapping
	ours := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 6 && strings.Contains(fields[0], "-"):
			_, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to)
			ours = err == nil && fields[5] == file && len(fields[1]) == 4 && fields[1][1] == '-' && fields[1][3] == 'p'
		case len(fields) == 5 && strings.Contains(fields[0], "-"):
			ours = false // a mapping without a name
		case ours && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			list = append(list, m)
		}
	}
	return list
}
