package explore

import (
	"bytes"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// The names of a directory with one worker id.
const (
	lockName = iota
	stateName
	tmpName                    // of a new file; those that are written have one by the inode of the writer's lock
	shared  = tmpName + inodes // marks that worker ids share, by the number of their series, and then their new files
	names   = shared + 2*series

	inodes = 20 // and one less files
	series = 8
)

func nameOf(path string) int {
	if name, ok := strings.CutPrefix(path, "/shared-nonce-"); ok {
		number, rest, _ := strings.Cut(name, ".")
		n, _ := strconv.Atoi(number)
		if n %= series; rest == "mark.tmp" {
			n += series
		}
		return shared + n
	}
	switch {
	case strings.HasSuffix(path, ".lock"):
		return lockName
	case strings.HasSuffix(path, ".state.tmp"):
		return tmpName
	case strings.HasSuffix(path, ".tmp"):
		return tmpName + slices.Index(inodeNames[:], strings.Split(path, ".")[2])
	}
	return stateName
}

// A disk is a directory and its files. It is a value: a copy goes on by itself. Inodes are numbered from 1, and 0 is
// none; the number of a file that is gone is used again.
type disk struct {
	names, synced [names]int8
	inodes        [inodes]inode
	opened        []descriptor // clipped before it grows
	away          int8         // the inode of a lock that was moved away; 0 = none
	lastFD        int
}

type inode struct {
	cached, durable [2]*slot // the two copies; nil = nothing there
	lost            [2]bool  // a Sync that failed has lost the copy, though it can be read
	holder          int      // the descriptor that has the lock; 0 = none
}

type descriptor struct {
	id, daemon int
	inode      int8
}

// A slot is one copy of a record as it was written, and what a digest needs of it.
type slot struct {
	text             string // without the empty lines at the end
	generation, mark int64
	numbers          [2]int64
	origin           []string
}

var emptyLines = strings.Repeat("\n", durable.CopySize)

// is says whether a copy would be the same.
func (s *slot) is(p []byte) bool {
	return s != nil && len(p) == durable.CopySize && string(p[:len(s.text)]) == s.text &&
		string(p[len(s.text):]) == emptyLines[len(s.text):]
}

// torn is what a power cut leaves of a copy that was being written.
var torn = &slot{text: strings.Repeat("?", durable.CopySize)}

func newSlot(p []byte) *slot {
	text, _, _ := bytes.Cut(p, []byte("\n\n"))
	s := &slot{text: string(text)}
	for line := range strings.SplitSeq(s.text, "\n") {
		word, value, _ := strings.Cut(line, " ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch word {
		case "generation":
			s.generation = n
		case "mark":
			s.mark = n
		case "reserve":
			s.numbers[0] = n
		case "offset":
			s.numbers[1] = n
		case "boot":
			s.origin = strings.Split(value, ";")
		case "series":
			s.origin = []string{value}
		}
	}
	return s
}

// boot is the boot in which a copy was written.
func (s *slot) boot() string {
	if s == nil || len(s.origin) == 0 {
		return ""
	}
	return s.origin[0]
}

func (s *slot) visit(d *digest) {
	switch s {
	case nil:
		d.Number(-1)
		return
	case torn:
		d.Number(-2)
		return
	}
	d.Time(s.mark)
	d.numbers(s.numbers[0], s.numbers[1])
	d.names(s.origin...)
}

func (d *digest) copies(all ...[2]*slot) {
	for _, pair := range all {
		pair[0].visit(d)
		pair[1].visit(d)
	}
}

// visit leaves out generations, but which of the two copies of a file is the newer one.
func (k *disk) visit(d *digest) {
	for i := range k.names {
		if i < tmpName || k.names[i]|k.synced[i] != 0 {
			d.Number(int64(i)<<16 | int64(k.names[i])<<8 | int64(k.synced[i]))
		}
	}
	d.Number(int64(k.away))
	for i, n := range k.inodes {
		if !k.used(int8(i)) {
			continue
		}
		d.Name(inodeNames[i])
		for _, pair := range [][2]*slot{n.cached, n.durable} {
			pair[0].visit(d)
			if pair[1] != pair[0] {
				pair[1].visit(d)
			}
			if pair[0] != nil && pair[1] != nil {
				d.Number(min(max(pair[0].generation-pair[1].generation, -1), 1))
			}
		}
		d.Number(flags(n.cached == n.durable, n.lost != [2]bool{}))
	}
	for _, f := range k.opened {
		d.Number(int64(f.daemon)<<8 | int64(f.inode))
	}
}

var inodeNames = func() (all [inodes]string) {
	for n := 1; n < inodes; n++ {
		all[n] = strconv.Itoa(n)
	}
	return all
}()

func (k *disk) used(n int8) bool {
	if n > 0 && n == k.away {
		return true
	}
	for i := range k.names {
		if n > 0 && (k.names[i] == n || k.synced[i] == n) {
			return true
		}
	}
	for _, f := range k.opened {
		if f.inode == n {
			return true
		}
	}
	return false
}

// make is a new file of a name.
func (k *disk) make(name int) int8 {
	for n := int8(1); ; n++ {
		if !k.used(n) {
			k.names[name], k.inodes[n] = n, inode{}
			return n
		}
	}
}

func (k *disk) open(daemon, name int, create bool) (int, error) {
	n := k.names[name]
	switch {
	case n == 0 && !create:
		return 0, fs.ErrNotExist
	case n == 0:
		n = k.make(name)
	case create:
		k.inodes[n].cached = [2]*slot{}
	}
	k.lastFD++
	k.opened = append(k.opened[:len(k.opened):len(k.opened)], descriptor{k.lastFD, daemon, n})
	return k.lastFD, nil
}

func (k *disk) inode(fd int) (int8, *inode) {
	for _, f := range k.opened {
		if f.id == fd {
			return f.inode, &k.inodes[f.inode]
		}
	}
	return 0, nil
}

// close ends descriptors: that one, or all of a daemon.
func (k *disk) close(fd, daemon int) {
	var left []descriptor
	for _, f := range k.opened {
		if f.id != fd && f.daemon != daemon {
			left = append(left, f)
		} else if n := &k.inodes[f.inode]; n.holder == f.id {
			n.holder = 0
		}
	}
	k.opened = left
}

func (k *disk) rename(from, to int) error {
	if k.names[from] == 0 {
		return fs.ErrNotExist
	}
	k.names[to], k.names[from] = k.names[from], 0
	return nil
}

// The ways in which a power cut can leave what was not synced.
const (
	keepsNothing = iota
	keepsAll
	keepsNames // and tears what is in the files
	keepsData  // under the old names
	cuts
)

func (k *disk) cut(how int8) {
	k.opened = nil
	if how == keepsNothing || how == keepsData {
		k.names = k.synced
	}
	k.synced = k.names
	for i := range k.inodes {
		n := &k.inodes[i]
		n.holder = 0
		for at := range n.cached {
			switch {
			case n.cached[at] == n.durable[at]:
			case how == keepsNothing:
				n.cached[at] = n.durable[at]
			case how == keepsNames && n.durable[at] == nil:
				n.cached[at] = nil
			case how == keepsNames:
				n.cached[at] = torn
			}
		}
		n.durable = n.cached
	}
}

// A handle is an open file. What it does reaches the present state through a port.
type handle struct {
	p  *port
	fd int
}

// ReadAt implements durable.File. Files are read from their beginning.
func (h handle) ReadAt(b []byte, _ int64) (int, error) {
	a := h.p.ask(func(w *files, _ int) answered {
		_, n := w.disk.inode(h.fd)
		return answered{slots: n.cached}
	})
	if a.err != nil {
		return 0, a.err
	}
	n := 0
	for _, s := range a.slots {
		if s == nil {
			break
		}
		n += copy(b[n:], s.text)
		n += copy(b[n:], emptyLines[len(s.text):])
	}
	return n, io.EOF
}

// WriteAt implements durable.File.
func (h handle) WriteAt(b []byte, off int64) (int, error) {
	a := h.p.ask(func(w *files, _ int) answered {
		_, n := w.disk.inode(h.fd)
		if len(b) == durable.FileSize { // both
			n.cached = [2]*slot{newSlot(b[:durable.CopySize]), newSlot(b[durable.CopySize:])}
			n.lost = [2]bool{}
		} else {
			at := off / durable.CopySize
			if other := n.cached[1-at]; other.is(b) {
				n.cached[at] = other
			} else {
				n.cached[at] = newSlot(b)
			}
			n.lost[at] = false
		}
		return answered{}
	})
	return len(b), a.err
}

// Close implements durable.File.
func (h handle) Close() error {
	closes := func(w *files) { w.disk.close(h.fd, -1) } // with an error, too
	return h.p.askOr(closes, func(w *files, _ int) answered {
		closes(w)
		return answered{}
	}).err
}

// Sync implements durable.File.
func (h handle) Sync() error {
	fails := func(w *files) {
		_, n := w.disk.inode(h.fd)
		n.fail()
	}
	return h.p.askOr(fails, func(w *files, _ int) answered {
		if _, n := w.disk.inode(h.fd); w.mutant != unsynced {
			n.sync()
		}
		return answered{}
	}).err
}

func (n *inode) sync() {
	for i := range n.cached {
		if !n.lost[i] {
			n.durable[i] = n.cached[i]
		}
	}
}

// fail is a Sync that fails.
func (n *inode) fail() {
	for i := range n.cached {
		n.lost[i] = n.lost[i] || n.durable[i] != n.cached[i]
	}
}

// Datasync implements durable.File.
func (h handle) Datasync() error { return h.Sync() }

// Lock implements durable.File.
func (h handle) Lock() error {
	return h.p.ask(func(w *files, _ int) answered {
		_, n := w.disk.inode(h.fd)
		if n.holder != 0 {
			return answered{err: durable.ErrInUse}
		}
		n.holder = h.fd
		return answered{}
	}).err
}

// Is implements durable.File.
func (h handle) Is(path string) bool {
	return h.p.ask(func(w *files, _ int) answered {
		name := nameOf(path)
		n, _ := w.disk.inode(h.fd)
		return answered{yes: n != 0 && w.disk.names[name] == n || w.mutant == anyFile && name == stateName}
	}).yes
}

// ID implements durable.File.
func (h handle) ID() string {
	return h.p.look(func(w *files) answered {
		n, _ := w.disk.inode(h.fd)
		if w.mutant == anyLock {
			n = 1
		}
		return answered{text: inodeNames[n]}
	}).text
}
