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

// A cgroup holds the program and all that it starts, whatever its session, its parent and its user come to be: the program is born into
// it, one write kills everybody inside, and nobody forks his way out of that. It lies below this process's own, which stays outside.
//
// Its directory is locked as long as this process lives, so that those of processes that were killed can be told: the kernel removes
// neither them nor what is left inside.
type cgroup struct {
	path   string
	dir    *os.File // locked
	killer *os.File // cgroup.kill, since Linux 5.14: whoever has to kill should not have to open a file first
	events *os.File // cgroup.events
}

// cgroupPrefix begins the names of the directories; the number of the process that made it follows, for people.
const cgroupPrefix = "katsubushi-run-"

// patience is how long killed processes are waited for: those of a killed predecessor once, as the next one to start does what could not be
// done then, and the program's before they are killed again.
const patience = time.Second

// newCgroup makes a cgroup for the program, below parent if that is not empty. First it kills what is left in those of dead processes.
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
	for range 3 { // somebody who starts just now may take it for left behind before it is locked
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

// openCgroup opens and locks a cgroup. The error says, among other things, that its owner lives.
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
	// From here on nobody else removes it. If somebody has, there is no such file.
	if g.killer, err = os.OpenFile(g.path+"/cgroup.kill", os.O_WRONLY, 0); err != nil {
		return err
	}
	g.events, err = os.Open(g.path + "/cgroup.events")
	return err
}

// kill kills everybody inside, and whoever is being forked there.
func (g *cgroup) kill() {
	if g != nil {
		g.killer.WriteString("1")
	}
}

// end returns when nobody is left inside. Everybody was killed; so is now and then whoever was moved there since.
func (g *cgroup) end() {
	for !g.await(patience) {
		g.kill()
	}
}

// await returns when nobody is left inside, or after a time that is not negative. It reports whether nobody is.
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
		if n == 0 && err != nil { // somebody removed it, which only an empty one can be
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

// remove removes it, if it is empty, with those that the program made inside.
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
		f.Close() // nil is taken
	}
}

func (g *cgroup) String() string {
	if g == nil {
		return ""
	}
	return g.path
}

// ownCgroup finds the directory of the cgroup that this process is in.
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
		if unix.Statfs(dir, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC { // else something else is mounted over it
			return dir, nil
		}
	}
	return "", errors.New("this process's cgroup v2 is not mounted")
}

// cgroupDirs lists where the directory may be, by /proc/self/cgroup and /proc/self/mountinfo. Every mount shows a part of the hierarchy.
// Beside cgroups v1 the hierarchy has no controllers, which are not needed here.
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
		if strings.HasPrefix(own, "/..") || strings.HasPrefix(root, "/..") { // outside the namespace: one cannot tell where
			continue
		}
		if below, err := filepath.Rel(root, own); err == nil && filepath.IsLocal(below) {
			dirs = append(dirs, filepath.Join(unescape.Replace(fields[4]), below))
		}
	}
	return dirs
}
