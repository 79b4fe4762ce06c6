package front

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
		root := writeFiles(t, test.files)
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

func TestLessThanOneCPU(t *testing.T) {
	const own, v1 = "proc/self/cgroup", "sys/fs/cgroup/cpu,cpuacct/"
	for _, test := range []struct {
		name  string
		files map[string]string
		less  bool
	}{
		{"no control groups", nil, false},
		{"v2, no quota", map[string]string{own: "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, false},
		{"v2, half a CPU", map[string]string{own: "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, true},
		{"v2, one CPU", map[string]string{own: "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}, false},
		{"v2, less above", map[string]string{own: "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "200000 100000\n",
			"sys/fs/cgroup/a/cpu.max": "99000 100000\n"}, true},
		{"v1, half a CPU", map[string]string{own: "4:cpu,cpuacct:/a\n", v1 + "a/cpu.cfs_quota_us": "50000\n",
			v1 + "a/cpu.cfs_period_us": "100000\n"}, true},
		{"v1, no quota", map[string]string{own: "4:cpu,cpuacct:/\n", v1 + "cpu.cfs_quota_us": "-1\n",
			v1 + "cpu.cfs_period_us": "100000\n"}, false},
		{"nonsense", map[string]string{own: "0::/\n", "sys/fs/cgroup/cpu.max": "50000\n"}, false},
	} {
		root := writeFiles(t, test.files)
		if got := lessThanOneCPU(root); got != test.less {
			t.Errorf("%s: %v", test.name, got)
		}
		if spins := spinWithin(root, SpinAuto) != 0; spins == test.less {
			t.Errorf("%s: loops may spin: %v", test.name, spins)
		}
		if d := time.Microsecond; spinWithin(root, d) != d {
			t.Errorf("%s: loops do not spin for %v, which was asked for", test.name, d)
		}
	}
}
