package leaserun

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup holds the program and everything that it starts, even if session, parent and user change.
// The program is started inside it, and one write kills all processes inside; forking does not escape
// that. The cgroup lies below this process's own cgroup, so this process stays outside.
//
// Its directory is locked while this process lives. The lock shows which cgroups are left from killed
// processes: the kernel removes neither those nor the processes inside.
type cgroup struct {
	path   string
	dir    *os.File // locked
	killer *os.File // cgroup.kill, since Linux 5.14; already open, so that killing cannot fail on opening it
	events *os.File // cgroup.events
}

// cgroupPrefix starts the names of the directories. The pid of the process that made it follows,
// for people.
const cgroupPrefix = "katsubushi-run-"

// patience is how long to wait for killed processes. For those of a killed predecessor newCgroup waits
// once; the next start tries again. The program's are killed again after each wait.
const patience = time.Second

// newCgroup makes a cgroup for the program, below parent if that is not empty. First it kills what is
// left in the cgroups of dead processes like this one.
func newCgroup(parent string) (g *cgroup, err error) {
	if parent == "" {
		if parent, err = ownCgroup(); err != nil {
			return nil, err
		}
	}
	left, _ := os.ReadDir(parent)
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), cgroupPrefix) {
			continue
		}
		if g, err := openCgroup(filepath.Join(parent, e.Name())); err == nil {
			g.kill()
			g.await(patience)
			g.remove()
		}
	}
	for range 3 { // another process that starts now may remove it as left behind, before it is locked
		var path string
		if path, err = os.MkdirTemp(parent, fmt.Sprintf("%s%d-", cgroupPrefix, os.Getpid())); err != nil {
			break
		}
		if g, err = openCgroup(path); err == nil {
			return g, nil
		}
		os.Remove(path)
	}
	return nil, err
}

// openCgroup opens and locks a cgroup. It fails if the owner is alive, among other reasons.
func openCgroup(path string) (*cgroup, error) {
	g := &cgroup{path: path}
	if err := g.open(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *cgroup) open() (err error) {
	if g.dir, err = os.Open(g.path); err != nil {
		return err
	}
	if err := unix.Flock(int(g.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &fs.PathError{Op: "flock", Path: g.path, Err: err}
	}
	// From here on nobody else removes it. If somebody already has, the next file does not exist.
	if g.killer, err = os.OpenFile(g.path+"/cgroup.kill", os.O_WRONLY, 0); err != nil {
		return err
	}
	g.events, err = os.Open(g.path + "/cgroup.events")
	return err
}

// kill kills all processes inside, including those that are being forked.
func (g *cgroup) kill() {
	if g != nil {
		g.killer.WriteString("1")
	}
}

// end returns when no process is left inside. All were killed before; end kills those that were moved
// there since.
func (g *cgroup) end() {
	for !g.await(patience) {
		g.kill()
	}
}

// await returns when no process is left inside, or after limit; a negative limit means no limit. It
// reports whether the cgroup is empty.
func (g *cgroup) await(limit time.Duration) (empty bool) {
	if g == nil {
		return true
	}
	ms := int(limit.Milliseconds())
	if limit < 0 {
		ms = -1
	}
	for {
		text := make([]byte, 256)
		n, err := g.events.ReadAt(text, 0)
		if n == 0 && err != nil { // it was removed, so it was empty
			return true
		}
		if bytes.Contains(text[:n], []byte("populated 0")) {
			return true
		}
		changed, err := unix.Poll([]unix.PollFd{{Fd: int32(g.events.Fd()), Events: unix.POLLPRI}}, ms)
		if err == nil && changed == 0 {
			return false
		}
	}
}

// remove removes the cgroup if it is empty, with the cgroups that the program made inside.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	var dirs []string
	filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		unix.Rmdir(dir)
	}
	g.close()
}

func (g *cgroup) close() {
	for _, f := range []*os.File{g.events, g.killer, g.dir} {
		f.Close() // accepts nil
	}
}

func (g *cgroup) String() string {
	if g == nil {
		return ""
	}
	return g.path
}

// ownCgroup returns the directory of this process's cgroup.
func ownCgroup() (dir string, err error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for _, dir := range cgroupDirs(string(self), string(mounts)) {
		var s unix.Statfs_t
		if unix.Statfs(dir, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC { // nothing else is mounted over it
			return dir, nil
		}
	}
	return "", errors.New("this process's cgroup v2 is not mounted")
}

// cgroupDirs lists where the directory may be, from /proc/self/cgroup and /proc/self/mountinfo. Each
// mount shows a part of the hierarchy. If cgroup v1 is in use too, the v2 hierarchy has no controllers;
// none are needed here.
func cgroupDirs(self, mounts string) (dirs []string) {
	var own string
	for line := range strings.Lines(self) {
		if path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); is {
			own = path
		}
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mounts) {
		// number, parent, device, root, mount point, options, any number of fields, "-", type, ...
		mount, what, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(what, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		root := unescape.Replace(fields[3])
		if strings.HasPrefix(own, "/..") || strings.HasPrefix(root, "/..") { // outside the namespace, so its place is unknown
			continue
		}
		if below, err := filepath.Rel(root, own); err == nil && filepath.IsLocal(below) {
			dirs = append(dirs, filepath.Join(unescape.Replace(fields[4]), below))
		}
	}
	return dirs
}
