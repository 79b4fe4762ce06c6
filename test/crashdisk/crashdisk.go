// Package crashdisk simulates a disk that loses power. It keeps files in memory, knows what has been
// synced, and produces the disks that may be found after a crash. Tests and simulations use it.
//
// The model is harsh. Without a Sync, each 64 bytes may be lost or kept independently. Without a
// SyncDir, names may be the old or the new ones. A Sync that fails may have lost its data, though
// reads still show the data and the next Sync succeeds, as on Linux.
package crashdisk

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

const sector = 64 // bytes: smaller than any disk's, so that records are torn

// A Disk implements durable.Disk. The zero Disk is empty.
type Disk struct {
	// Fault, if set, is asked before every operation; an error is what the operation fails with.
	Fault func(op string) error
	Trace []string // of all operations

	mu      sync.Mutex
	changed int64           // how often a name was made, replaced or removed
	opened  map[*inode]bool // those that are open
	names   map[string]*inode
	synced  map[string]*inode // what names were at the last SyncDir
}

var _ durable.Disk = (*Disk)(nil)

type inode struct {
	data    []byte       // as it is read
	durable []byte       // as it is after a power cut, at least
	dirty   map[int]bool // sectors of data that the next Sync makes durable
	lost    map[int]bool // and those that a failed one may have lost: no Sync touches them again
	locked  bool
	written int64 // how often
	number  int   // no other file has it that has a name or is open
	open    int   // how many times
}

func (d *Disk) do(op string, args ...any) error {
	op = fmt.Sprintf(op, args...)
	d.Trace = append(d.Trace, op)
	if d.names == nil {
		d.names, d.synced = map[string]*inode{}, map[string]*inode{}
	}
	if d.Fault != nil {
		return d.Fault(op)
	}
	return nil
}

// Prepare implements durable.Disk.
func (d *Disk) Prepare(string) (string, error) { return "", nil }

// Open implements durable.Disk.
func (d *Disk) Open(path string, create bool) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path = filepath.Base(path)
	if err := d.do("open %s%s", path, map[bool]string{true: " create"}[create]); err != nil {
		return nil, err
	}
	n := d.names[path]
	switch {
	case n == nil && !create:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case n == nil:
		n = &inode{number: d.freeNumber()}
		d.names[path] = n
		d.changed++
	case create:
		n.data = nil
		n.touch(0, len(n.durable))
	}
	if d.opened == nil {
		d.opened = map[*inode]bool{}
	}
	n.open++
	d.opened[n] = true
	return &file{d: d, n: n, name: path}, nil
}

// freeNumber is the smallest one that no file has: file systems use the number of a file that has
// gone again at once.
func (d *Disk) freeNumber() int {
	used := map[int]bool{}
	for _, n := range d.names {
		used[n.number] = true
	}
	for n := range d.opened {
		used[n.number] = true
	}
	number := 1
	for used[number] {
		number++
	}
	return number
}

// Rename implements durable.Disk.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, to = filepath.Base(from), filepath.Base(to)
	if err := d.do("rename %s %s", from, to); err != nil {
		return err
	}
	if d.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	d.changed++
	return nil
}

// Remove implements durable.Disk.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path = filepath.Base(path)
	if err := d.do("remove %s", path); err != nil {
		return err
	}
	if d.names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	delete(d.names, path)
	d.changed++
	return nil
}

// SyncDir implements durable.Disk.
func (d *Disk) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("syncdir"); err != nil {
		return err
	}
	d.synced = maps.Clone(d.names)
	return nil
}

// Names implements durable.Disk.
func (d *Disk) Names(string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("names"); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(d.names)), nil
}

// Version implements durable.Disk.
func (d *Disk) Version(path string) durable.Version {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[filepath.Base(path)]; n != nil {
		return durable.Version{Ino: 2 + uint64(n.number), Changed: d.changed + n.written}
	}
	return durable.Version{Ino: 1, Changed: d.changed}
}

type file struct {
	d      *Disk
	n      *inode
	name   string
	lock   bool
	closed bool
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("read %s", f.name); err != nil {
		return 0, err
	}
	n := copy(p, f.n.data[min(int(off), len(f.n.data)):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("write %s %d+%d", f.name, off, len(p)); err != nil {
		return 0, err
	}
	end := int(off) + len(p)
	if end > len(f.n.data) {
		f.n.data = append(f.n.data, make([]byte, end-len(f.n.data))...)
	}
	copy(f.n.data[off:], p)
	f.n.written++
	f.n.touch(int(off), end)
	return len(p), nil
}

func (n *inode) touch(from, to int) {
	if n.dirty == nil {
		n.dirty = map[int]bool{}
	}
	for s := from / sector; s*sector < to; s++ {
		n.dirty[s] = true
		delete(n.lost, s)
	}
}

func (f *file) Sync() error     { return f.sync("sync") }
func (f *file) Datasync() error { return f.sync("datasync") }

func (f *file) sync(op string) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.do("%s %s", op, f.name)
	if err == nil {
		f.n.durable = f.n.after(f.n.dirty)
	} else if f.n.lost == nil {
		f.n.lost = f.n.dirty
	} else {
		maps.Copy(f.n.lost, f.n.dirty)
	}
	f.n.dirty = nil
	return err
}

// after is the content on the platter once these sectors of data have reached it.
func (n *inode) after(written map[int]bool) []byte {
	b := make([]byte, max(len(n.data), len(n.durable)))
	end := 0
	for s := 0; s*sector < len(b); s++ {
		from := n.durable
		if written[s] {
			from = n.data
		}
		if s*sector < len(from) {
			end = s*sector + copy(b[s*sector:min((s+1)*sector, len(b))], from[s*sector:])
		}
	}
	return b[:end]
}

func (f *file) Lock() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("lock %s", f.name); err != nil {
		return err
	}
	if f.n.locked {
		return durable.ErrInUse
	}
	f.n.locked, f.lock = true, true
	return nil
}

func (f *file) Is(path string) bool {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.d.names[filepath.Base(path)] == f.n
}

// ID implements durable.File.
func (f *file) ID() string { return fmt.Sprintf("disk-%d", f.n.number) }

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.lock {
		f.n.locked, f.lock = false, false
	}
	if !f.closed {
		f.closed = true
		if f.n.open--; f.n.open == 0 {
			delete(f.d.opened, f.n)
		}
	}
	return f.d.do("close %s", f.name)
}

// Kill is the disk as the next process finds it after this one was killed: nothing is lost but the
// locks. The old Disk must not be used any more.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.names {
		n.locked, n.open = false, 0
	}
	return &Disk{names: d.names, synced: d.synced}
}

// Cut is one of the disks that may be found after a power cut at this moment. d is left as it is.
func (d *Disk) Cut(rnd *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := d.synced
	if rnd.IntN(2) == 0 {
		names = d.names
	}
	found := map[string]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n, kept := names[name], map[int]bool{}
		for s := range (len(n.data) + len(n.durable)) / sector {
			kept[s] = (n.dirty[s] || n.lost[s]) && rnd.IntN(2) == 0
		}
		b := n.after(kept)
		found[name] = &inode{data: b, durable: slices.Clone(b), number: n.number}
	}
	return &Disk{names: found, synced: maps.Clone(found)}
}

// Read is the content of a file, nil if there is none.
func (d *Disk) Read(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[name]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// Write puts a file onto the disk, durably.
func (d *Disk) Write(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names, d.synced = map[string]*inode{}, map[string]*inode{}
	}
	n := &inode{data: slices.Clone(data), durable: slices.Clone(data), number: d.freeNumber()}
	d.names[name], d.synced[name] = n, n
	d.changed++
}
