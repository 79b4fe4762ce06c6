package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
