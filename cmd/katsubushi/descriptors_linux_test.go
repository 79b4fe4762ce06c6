package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// launchLimited starts a daemon that may have so many descriptors.
func launchLimited(t *testing.T, files int, args ...string) *process {
	t.Helper()
	limited := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)
	return runs(t, exec.Command("/bin/sh", "-c", limited, binary), args...)
}

// TestProcessDescriptorsForSequences: by default as many connections are allowed as leave a quarter of the
// descriptors for the sequences in files, declared or found in the directory, and these share them, so that a
// daemon starts with any number of them.
func TestProcessDescriptorsForSequences(t *testing.T) {
	t.Parallel()
	const files, sequences = 300, 290
	file := filepath.Join(t.TempDir(), "names")
	args := append([]string{"-bind", "127.0.0.1", "-port", "0", "-claim", "off", "-log-format", "json", "-worker-id", "40",
		"-http-port", "0", "-generators", file},
		inMemory(t)...)
	for _, declared := range []int{sequences, 1} { // the rest is found
		var text strings.Builder
		for i := range declared {
			fmt.Fprintf(&text, "s%d sequence\n", i)
		}
		tempfile.Write(t, file, text.String())
		p := launchLimited(t, files, args...)
		p.WaitListening(t)
		limit := files - otherFiles - (files-otherFiles-fewConnections)/4
		for i := range limit {
			c := countFrom(t, p)
			if i > 0 {
				c.must(t, "id")
				continue
			}
			for i := range sequences {
				c.must(t, fmt.Sprint("s", i))
			}
		}
		conn := dial(t, "tcp", p.Addr())
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "ERROR Too many open connections\r\n" {
			t.Errorf("one more connection is told %q, %v", line, err)
		}
		p.Process.Signal(os.Interrupt)
		<-p.Ended()
	}
}
