package crashdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A Memory implements static.Memory. It names pages as weakly as can be: by the smallest number
// that is free, so that a page from another time may have the name of the present one. The zero
// Memory is empty. It is for one goroutine.
type Memory struct {
	Fault func() error // asked before every Make
	pages map[string]page
}

var _ static.Memory = (*Memory)(nil)

type page struct {
	nonce  string
	issued int64
	word   *atomic.Uint64
}

// Make implements static.Memory.
func (m *Memory) Make(nonce string, issued int64) (static.Page, error) {
	if m.Fault != nil {
		if err := m.Fault(); err != nil {
			return static.Page{}, err
		}
	}
	if m.pages == nil {
		m.pages = map[string]page{}
	}
	p := page{nonce, issued, new(atomic.Uint64)}
	for n := 1; ; n++ {
		if id := fmt.Sprintf("page-%d", n); m.pages[id].word == nil {
			m.pages[id] = p
			return static.Page{ID: id, Word: p.word}, nil
		}
	}
}

// Find implements static.Memory.
func (m *Memory) Find(id, nonce string) (issued int64, word uint64, err error) {
	switch p, ok := m.pages[id]; {
	case !ok:
		return 0, 0, fs.ErrNotExist
	case p.nonce != nonce:
		return 0, 0, errors.New("another run's")
	default:
		return p.issued, p.word.Load(), nil
	}
}

// Changed implements static.Memory.
func (m *Memory) Changed(id, nonce string) bool {
	p, ok := m.pages["written-"+id]
	return ok && p.nonce == nonce
}

// Overwrite writes what pages were at another time into those that are there now, which may be in
// use: the words go back.
func (m *Memory) Overwrite(then *Memory) {
	for id, old := range then.pages {
		if p, ok := m.pages[id]; ok && p.nonce == old.nonce {
			p.word.Store(old.word.Load())
			delete(m.pages, id)
			m.pages["written-"+id] = p
		}
	}
}

// Remove implements static.Memory.
func (m *Memory) Remove(id, nonce string) error {
	if m.pages[id].nonce == nonce {
		delete(m.pages, id)
	}
	return nil
}

// Lose makes every page go. Those who have them mapped keep them.
func (m *Memory) Lose() { m.pages = nil }

// At is what is in the memory now, to be put back later.
func (m *Memory) At() *Memory {
	c := &Memory{Fault: m.Fault, pages: map[string]page{}}
	for id, p := range m.pages {
		word := new(atomic.Uint64)
		word.Store(p.word.Load())
		c.pages[id] = page{p.nonce, p.issued, word}
	}
	return c
}

// PutBack replaces all pages by copies from another time, as cp does: they are other files, or have
// other times.
func (m *Memory) PutBack(then *Memory) {
	m.pages = map[string]page{}
	for id, p := range then.At().pages {
		m.pages["copy-"+id] = p
	}
}
