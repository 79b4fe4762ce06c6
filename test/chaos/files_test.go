//go:build chaos && linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/mount"
)

// fileSettings are fleets without a store: each place has worker ids of its own, as an ordinal gives them, and a
// directory that records their windows. Where directories are restored the clocks are right, which the promise wants.
var fileSettings = []setting{
	{name: "state directories", kind: "files"},
	{name: "state directories that are restored", kind: "files", forgets: true},
}

// files are the state directories of a fleet. No place has a way to any server.
type files struct {
	setting
	t       testing.TB
	next    int                     // the next place's first worker id; tests and examples beside it have others
	of      map[*daemon]string      // directories
	disks   map[*daemon]*mount.Disk // that they are on; nil where none can be mounted
	backups map[*daemon]string      // and earlier states of them
}

func newFiles(t testing.TB, of setting) *files {
	return &files{setting: of, t: t, next: 800, of: map[*daemon]string{}, disks: map[*daemon]*mount.Disk{},
		backups: map[*daemon]string{}}
}

func (f *files) title() string   { return f.name }
func (f *files) missing() string { return "" }
func (f *files) pool() []string  { return nil }
func (f *files) follow(*world)   {}
func (f *files) doors(*world)    {}

func (f *files) connect(d *daemon) []string {
	first := f.next
	f.next += d.lanes
	disk, err := mount.NewDisk(f.t)
	if err != nil {
		f.t.Log(err)
		f.of[d] = f.t.TempDir()
	} else {
		f.disks[d], f.of[d] = disk, filepath.Join(disk.Dir, "state")
	}
	return []string{"-worker-id", fmt.Sprintf("%d-%d", first, f.next-1), "-state-any-disk", "-state-dir", f.of[d]}
}

// copyTo makes to a copy of the directory from, or nothing.
func copyTo(t testing.TB, to, from string) {
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if from == "" {
		return
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// served says whether ids of the process that runs have come.
func (d *daemon) served() bool {
	_, yes := d.seen.servesSince(d.started.Add(time.Second)) // answers of the one before may have come after its end
	return yes
}

// fileFaults happen to one place, instead of those of its network.
var fileFaults = []fault{
	{part: process, name: "kill -9 of a daemon, a backup of its state directory, and restart", lasts: lease,
		unless: intact, on: func(w *world, d *daemon) func() time.Duration {
			d.end(syscall.SIGKILL)
			f := w.files
			f.backups[d] = filepath.Join(f.t.TempDir(), "backup")
			copyTo(f.t, f.backups[d], f.of[d])
			return then(d.start)
		}},
	{part: process, name: "kill -9 of a daemon, an earlier state directory put back, and restart", lasts: lease,
		unless: intact, on: func(w *world, d *daemon) func() time.Duration {
			f := w.files
			if f.backups[d] == "" {
				w.note("%s: there is no backup yet", d.name)
				return nil
			}
			d.end(syscall.SIGKILL)
			copyTo(f.t, f.of[d], f.backups[d])
			return then(d.start)
		}},
	{part: process, name: "the disk of a state directory stands still, until no window is left", lasts: 6 * lease,
		whole: true, on: func(w *world, d *daemon) func() time.Duration {
			disk, clock := w.files.disks[d], d.name+": "+clock
			if disk == nil || w.struck[clock] || !d.served() {
				return nil
			}
			if err := disk.Freeze(); err != nil {
				w.t.Error(err)
				return nil
			}
			w.struck[clock] = true // who waits for the disk cannot be stopped to move it
			return then(func() {
				delete(w.struck, clock)
				if err := disk.Thaw(); err != nil {
					w.t.Error(err)
				}
			})
		}},
	{part: process, name: "SIGSTOP of a daemon, and a start in its state directory", lasts: lease,
		on: beside(func(_ *world, d *daemon) []string { return d.args })},
	{part: process, name: "SIGSTOP of a daemon, and a start in a copy of its state directory", lasts: lease,
		on: beside(func(w *world, d *daemon) []string {
			dir := filepath.Join(w.files.t.TempDir(), "copy")
			copyTo(d.t, dir, w.files.of[d])
			return append(d.args[:len(d.args)-1:len(d.args)-1], dir)
		})},
}

// beside is a start in vain beside a process that stands still.
func beside(args func(w *world, d *daemon) []string) effect {
	return func(w *world, d *daemon) func() time.Duration {
		if !d.served() {
			return nil // nothing is in use yet
		}
		d.Pause(d.t)
		w.inVain(d, args(w, d))
		return then(func() { d.Resume(d.t) })
	}
}

// inVain starts the daemon's next version beside the running process, with other arguments. It must not serve.
func (w *world) inVain(d *daemon, args []string) {
	next := d.versions[(d.first+d.starts)%len(d.versions)]
	cmd := exec.Command(next.path, args...)
	timer := time.AfterFunc(patienceDaemons, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), `"msg":"listening"`) || !strings.Contains(string(out), "in use") {
		w.t.Errorf("%s beside %s, on its worker ids: %v\n%s", next.name, d.version().name, err, out)
	}
}
