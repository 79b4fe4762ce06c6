package static

import (
	"errors"
	"sync/atomic"
)

// A Memory keeps pages that outlive the process and not the machine: there a generator's word tells
// the next run how far this one came, to the id, whatever ended it. Its methods are called by one
// goroutine for each worker id, but for Changed.
type Memory interface {
	// Make makes a page, in which nothing is allocated later: its word can be written to whatever
	// becomes of the disk.
	Make(nonce string, issued int64) (Page, error)
	// Find reads the page that Make made with this nonce and named id. It is an error if it is not
	// there, or is not that very page, or was written to by anybody but through its word.
	Find(id, nonce string) (issued int64, word uint64, err error)
	// Changed says whether that page, while it is in use, was written to by anybody but through its
	// word, which may have gone back then. It is false if the page has gone: nobody finds it any
	// more. It may be called from any goroutine, and does not wait for a disk.
	Changed(id, nonce string) bool
	// Remove lets the page go, if it is there. Whoever has it mapped may go on writing to it.
	Remove(id, nonce string)
}

// A Page is one run's.
type Page struct {
	// that very page: neither a copy of it nor another one of its name has the same. Up to 64
	// printable characters without spaces or ;
	ID   string
	Word *atomic.Uint64 // 0; valid as long as the process runs
}

// A page's word is 0 until a window was granted, then handedOut until there is a generator, then
// the generator's.
const handedOut = 1 << 63

var errNoMemory = errors.New("no memory here outlives the process")
