package front

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const v1, v2 = "sys/fs/cgroup/memory/", "sys/fs/cgroup/"
	for _, test := range []struct {
		name  string
		files map[string]string
		limit int64
	}{
		{"no control groups", nil, 0},
		{"v2, in a container", map[string]string{"proc/self/cgroup": "0::/\n", v2 + "memory.max": "268435456\n"}, 256 << 20},
		{"v2, no limit", map[string]string{"proc/self/cgroup": "0::/a\n", v2 + "a/memory.max": "max\n"}, 0},
		{"v2, of a service",
			map[string]string{"proc/self/cgroup": "0::/system.slice/k.service\n",
				v2 + "system.slice/k.service/memory.max": "1073741824\n",
				v2 + "system.slice/memory.max":           "max\n"}, 1 << 30},
		{"v2, lower above",
			map[string]string{"proc/self/cgroup": "0::/a/b\n", v2 + "a/b/memory.max": "1073741824\n",
				v2 + "a/memory.max": "536870912\n"}, 512 << 20},
		{"v1", map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/a\n",
			v1 + "a/memory.limit_in_bytes": "134217728\n",
			v1 + "memory.limit_in_bytes":   "9223372036854771712\n"}, 128 << 20},
		{"v1, in a container that sees the host's path", map[string]string{"proc/self/cgroup": "4:memory:/docker/abc\n0::/\n",
			v1 + "memory.limit_in_bytes": "67108864\n"}, 64 << 20},
		{"v1, no limit",
			map[string]string{"proc/self/cgroup": "4:memory:/\n", v1 + "memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"nonsense", map[string]string{"proc/self/cgroup": "4:memory:../..\nx\n0::\n::\n",
			v1 + "memory.limit_in_bytes": "-1\n", v2 + "memory.max": "many\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range test.files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryLimit(root); got != test.limit {
			t.Errorf("%s: limit %d, want %d", test.name, got, test.limit)
		}
	}
	for limit, want := range map[int64]int64{0: 256 << 20, 256 << 20: 32 << 20, 255<<20 + 1: 31 << 20,
		1 << 20: MinBufferMemory, 1 << 59: maxBufferMemory} {
		if got := bufferMemoryOf(limit); got != want {
			t.Errorf("of %d bytes %d are for buffers, want %d", limit, got, want)
		}
	}
}
