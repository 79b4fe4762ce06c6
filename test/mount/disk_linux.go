package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A Disk is a small ext4 that may stand still.
type Disk struct {
	Dir    string // where it is mounted
	t      testing.TB
	root   *os.File // Dir
	frozen bool
}

// NewDisk mounts a disk until the test ends. The error says why that is not possible here.
func NewDisk(t testing.TB) (*Disk, error) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		return nil, err
	}
	d := &Disk{Dir: t.TempDir(), t: t}
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, d.Dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("no disk that can be frozen: %v: %w %s", command, err, out)
		}
	}
	t.Cleanup(func() { Unmount(t, d.Dir) })
	root, err := os.Open(d.Dir)
	if err != nil {
		return nil, err
	}
	d.root = root
	t.Cleanup(func() { root.Close() })
	return d, nil
}

const fifreeze, fithaw = 0xc0045877, 0xc0045878 // linux/fs.h

// Freeze makes the disk stand still: whoever writes to it then waits until Thaw, or until the test ends, in spite of
// any signal.
func (d *Disk) Freeze() error {
	d.t.Cleanup(func() { d.Thaw() }) // before the programs on it are waited for
	err := unix.IoctlSetInt(int(d.root.Fd()), fifreeze, 0)
	d.frozen = err == nil
	return err
}

// Thaw ends a Freeze, if there is one.
func (d *Disk) Thaw() error {
	if !d.frozen {
		return nil
	}
	d.frozen = false
	return unix.IoctlSetInt(int(d.root.Fd()), fithaw, 0)
}
