package static

import (
	"errors"
	"sync/atomic"
)

// A Memory keeps pages that outlive the process but not the machine. A generator's word on a page
// tells the next run exactly how far this one came, however it ended. One goroutine per worker id
// calls its methods; Changed may be called by any.
type Memory interface {
	// Make makes a page. Nothing is allocated in it later, so its word can be written to whatever
	// happens to the disk.
	Make(nonce string, issued int64) (Page, error)
	// Find reads the page that Make made with this nonce and named id. It is an error if it is not
	// there, or is not that very page, or was written to other than through its word.
	Find(id, nonce string) (issued int64, word uint64, err error)
	// Changed reports whether that page, while in use, was written to other than through its word;
	// the word may then have gone back. It is false if the page is gone, because no later run will find it.
	// It does not wait for a disk.
	Changed(id, nonce string) bool
	// Remove removes the page if it exists. A process that has it mapped may go on writing to it. After an error the
	// page may still be found.
	Remove(id, nonce string) error
}

// A Page is one run's.
type Page struct {
	// that very page: neither a copy of it nor another one of its name has the same. Up to 64
	// printable characters without spaces or ;
	ID   string
	Word *atomic.Uint64 // 0; valid as long as the process runs
}

// A page's word is 0 until a window was granted, then the window's first position, from which its
// generator goes on. Earlier releases wrote handedOut, which holds no position, until there was a
// generator; so does this one without Config.First.
const handedOut = 1 << 63

var errNoMemory = errors.New("no memory here outlives the process")
