package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUnchangedMappings: pages that differ from the file stay.
func TestUnchangedMappings(t *testing.T) {
	const smaps = `00400000-00c0e000 r-xp 00000000 08:01 123                                /usr/bin/katsubushi
Size:               8248 kB
Rss:                6000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
00c0e000-00c10000 r-xp 0080e000 08:01 123                                /usr/bin/katsubushi
Anonymous:             4 kB
00c10000-0163d000 r--p 00810000 08:01 123                                /usr/bin/katsubushi
Anonymous:             0 kB
0163d000-0163f000 r--p 0123d000 08:01 123                                /usr/bin/katsubushi
Anonymous:             8 kB
0163f000-016a0000 rw-p 0123f000 08:01 123                                /usr/bin/katsubushi
Anonymous:             0 kB
016a0000-016b0000 r--s 0123f000 08:01 123                                /usr/bin/katsubushi
Anonymous:             0 kB
016b0000-016c0000 r--p 00000000 00:00 0 
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 08:01 77                         /usr/lib/libc.so.6
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0xc0e000}, {0xc10000, 0x163d000}}
	if got := unchangedMappings(smaps, "/usr/bin/katsubushi"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestFreeStartup: fewer pages of this program's file are mapped than before, and it goes on.
func TestFreeStartup(t *testing.T) {
	before := memoryOf(t, os.Getpid(), "RssFile")
	freeStartup()
	if after := memoryOf(t, os.Getpid(), "RssFile"); after >= before {
		t.Errorf("%d bytes of files, %d before", after, before)
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(unchangedMappings(string(smaps), program)) == 0 || !strings.Contains(string(smaps), program) {
		t.Error("nothing to give back")
	}
}
