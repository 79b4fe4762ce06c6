package etcdtest

import (
	"os"
	"os/exec"
)

// Snapshot saves what the member knows to a file, while it serves.
func (m *Member) Snapshot(file string) {
	m.t.Helper()
	os.Remove(file)
	m.Control("snapshot", "save", file)
}

// Replace puts what Snapshot has saved in the place of what all members know, while they are killed.
// Without a file it wipes them.
func Replace(all []*Member, file string) {
	all[0].t.Helper()
	for _, m := range all {
		if err := os.RemoveAll(m.Dir); err != nil {
			m.t.Fatal(err)
		}
		if file == "" {
			continue
		}
		cmd := exec.Command("etcdctl", "snapshot", "restore", file, "--data-dir", m.Dir, "--name", m.name,
			"--initial-cluster", m.cluster, "--initial-cluster-token", m.t.Name(), "--initial-advertise-peer-urls", m.peerURL())
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		if out, err := cmd.CombinedOutput(); err != nil {
			m.t.Fatalf("etcdctl snapshot restore: %v: %s", err, out)
		}
	}
}

// Running says whether the member was started and not killed.
func (m *Member) Running() bool { return m.child != nil }
