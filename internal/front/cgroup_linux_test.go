package front

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// writeFiles writes files, by their paths, below a directory that it returns.
func writeFiles(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestControlGroups(t *testing.T) {
	steps.Run(t, "testdata/cgroups.txt", func(t *testing.T) steps.Calls {
		files, lines := map[string]string{}, strings.NewReplacer(`\n`, "\n")
		return steps.Calls{
			"file":  func(name, text string) { files[name] = lines.Replace(text) },
			"limit": func() int64 { return memoryLimit(writeFiles(t, files)) },
			"cpus": func() string {
				root := writeFiles(t, files)
				if d := time.Microsecond; spinWithin(root, d) != d {
					t.Errorf("loops do not spin for %v, which was asked for", d)
				}
				return fmt.Sprintf("less than one: %v; spins: %v", lessThanOneCPU(root), spinWithin(root, SpinAuto) != 0)
			},
		}
	})
	for limit, want := range map[int64]int64{0: 256 << 20, 256 << 20: 32 << 20, 255<<20 + 1: 31 << 20,
		1 << 20: MinBufferMemory, 1 << 59: maxBufferMemory} {
		if got := bufferMemoryOf(limit); got != want {
			t.Errorf("of %d bytes %d are for buffers, want %d", limit, got, want)
		}
	}
}
