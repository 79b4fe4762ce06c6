package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/control"
)

// A daemon of an earlier version does not say where it records: commands that write are refused, and
// those that read say where they look.
func TestCommandsBesideAnEarlierDaemon(t *testing.T) {
	daemon, err := control.Listen() // this process
	if err != nil {
		t.Fatal(err)
	}
	go daemon.Serve(nil) // it knows no word
	t.Cleanup(func() { daemon.Close() })
	home := t.TempDir()
	earlier := fmt.Sprintf("process %d is of an earlier version and does not say where it records: ", os.Getpid())
	for args, want := range map[string]string{
		"name create orders sequence":                        "give -state-dir",
		"name raise orders 1000":                             "give -state-dir",
		"name adopt":                                         "give -state-dir",
		"generator -force retire orders":                     "give -state-dir",
		"state reset -worker-id 1 -mark now -state-any-disk": "give -state-dir",
		"state adopt -worker-id 1":                           "give -state-dir",
		"name list":                                          "what follows is of ",
		"state show":                                         "what follows is of ",
	} {
		var e bytes.Buffer
		code := run(strings.Fields(args), environment("HOME", home), io.Discard, &e)
		refused := strings.HasPrefix(want, "give")
		if !strings.Contains(e.String(), earlier+want) || refused != (code == exitUsage) {
			t.Errorf("%s: exit code %d: %s", args, code, &e)
		}
	}
	if made, err := filepath.Glob(home + "/.[a-z]*"); len(made) > 0 || err != nil {
		t.Errorf("%s was made, %v", made, err)
	}
}

// A daemon says over its control socket where it records, so that the commands of its user and of root find it.
func TestProcessSaysWhereItRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "-worker-id", "3", "-state-dir", dir, "-state-any-disk")
	want := place{StateDir: dir, SequencesIn: dir, Counters: "file"}
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // it opens once the daemon serves
		list := neighbours()
		i := slices.IndexFunc(list, func(n neighbour) bool { return n.pid == p.Process.Pid })
		if i >= 0 && !errors.Is(list[i].err, os.ErrDeadlineExceeded) {
			if n := list[i]; n.err != nil || n.place != want {
				t.Errorf("%#v, %v; want %#v", n.place, n.err, want)
			}
			return
		}
		if time.Now().After(until) {
			t.Fatal("the daemon is not found")
		}
	}
}
