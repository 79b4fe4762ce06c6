package ledger

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// A Driver carries the calls of a Ledger to a store. Its methods but Do and NoAnswer are called within Do. Calls
// about one name come one after another, but Admitter's and All's may come at any time.
type Driver interface {
	// Do calls f. It may return when ctx has ended, before f has, which then goes on. It may add to the error.
	Do(ctx context.Context, f func() error) error
	// NoAnswer is the error for a call about a name that did not get its turn.
	NoAnswer(name string, cause error) error
	// At says where the record of a name is, for errors.
	At(name string) string
	// Check returns why the store cannot keep a sequence, or nil.
	Check(d counter.Definition) error
	// New returns the entry of a sequence that has granted nothing, to be put in place of what was found: nothing,
	// or a record that is damaged. The error says why there must be none.
	New(found Found, d counter.Definition, token string) (Entry, error)
	// Load reads the records of some names, Traits.Together at most, in their order.
	Load(ctx context.Context, names []string) ([]Found, error)
	// Swap writes all of some records or none: each only if what is there is still what was found, and the fence
	// holds. If another daemon has written, that is ErrAgain, perhaps with what is there now. After any other error
	// the writes may have happened or not.
	Swap(ctx context.Context, fence Fence, writes []Write) (now []Found, err error)
	// All returns all records, by name.
	All(ctx context.Context) ([]Found, error)
	// Changes returns a text that is another one after each write with Announce; never empty. It is cheap.
	Changes(ctx context.Context) (string, error)
	// Close releases what the Driver holds.
	Close() error
}

// Traits are what a Ledger needs to know of a store.
type Traits struct {
	Words
	Together int  // records in one Swap
	Patient  bool // a call but Define and Reserve tries again until ctx ends while the store does not answer
	Signs    bool // a daemon signs before it is granted its first block
	Anew     bool // Define may make a record again that this process knows to be lost: a human says so
}

// Words are a store's errors, in which {NAME} stands for the sequence, {AT} for Driver.At, {NEXT} for the
// record's next value, {GRANTED} for the largest one that this process was granted, and {LEAST} for what to
// raise it to.
type Words struct {
	Unknown string // there is no record
	Lost    string // there is none any more
	Again   string // it was made again
	SetBack string // it was set back

	Unanswered string // of a Patient store: an attempt was not answered, and others have written since
}

// An Entry is a record as a store keeps it. It changes by its methods alone; after an error it is as before.
type Entry interface {
	Plain() *counter.Record
	Copy() Entry
	// Birth tells the record from others of its name; empty = it does not count yet.
	Birth() string
	// Adopt reports whether it changed the record, because the store may have lost grants.
	Adopt(token string) bool
	Reserve(n uint64, token string) (counter.Block, error)
	Return(b counter.Block, next uint64, token string) error
	Raise(atLeast uint64, token string) error
	Retire(token string)
}

// Basic is an Entry with nothing but what every store keeps, for others to embed.
type Basic struct{ counter.Record }

// Plain implements Entry.
func (b *Basic) Plain() *counter.Record { return &b.Record }

// Copy implements Entry.
func (b *Basic) Copy() Entry { return &Basic{b.Record} }

// Birth implements Entry: of a store that does not tell, all records are one.
func (*Basic) Birth() string { return "-" }

// Adopt implements Entry: the store loses nothing.
func (*Basic) Adopt(string) bool { return false }

// A Found is what is there in the place of a record.
type Found struct {
	Name    string
	Entry   Entry  // nil = there is nothing, or it cannot be read, or it is Unread
	Unread  bool   // by All: the Ledger loads it
	Fault   error  // why it cannot be read: counter.ErrDamaged, ErrUnusable
	Foreign string // in Words, why it does not say which values are free, for any reader; empty = it does
	Waits   error  // why nothing is granted although the record is right: Reserve says so too
	History string // of the server that answered: grants under another one may be lost. Empty = there is one only
	Version any    // the Driver's
	Closed  error  // why nothing may be written now
	Fixed   error  // why operators may change nothing now
}

// A Write puts Next in place of Found.
type Write struct {
	Found    Found
	Next     Entry
	Announce bool  // Changes shall tell of it
	Gap      bool  // if it is lost that is a gap and no more
	Failed   error // why nothing is granted though it is written
}

// A Fence is a term of leadership, see Ledger.Within.
type Fence interface {
	// Check returns counter.ErrDeposed if the term is known to be over, or not that of the sequence.
	Check(name string) error
}

// A Preparer is a Driver that makes the place for records before it is asked to Define one.
type Preparer interface {
	Prepare() error
}

// A Locker is a Driver whose Load and Swap are one step only while a lock is held.
type Locker interface {
	// Lock returns counter.ErrUnknown if there cannot be a record.
	Lock(ctx context.Context, name string) (unlock func() error, err error)
}

// An Admitter is a Driver that says who may reserve and give back.
type Admitter interface {
	Admit(fence Fence, found Found) error
}

// A Settler is a Driver of a store that may lose what it has confirmed.
type Settler interface {
	// Settle brings a record, if there is one, where a loss cannot take it. operator: it is what Define, Raise, Revive
	// or Retire wrote.
	Settle(ctx context.Context, name string, operator bool) (Found, error)
}

// A Noter is a Driver that keeps a note of each daemon.
type Noter interface {
	// Learnt is what the note says of what Changes returned; since is empty before it has returned anything.
	Learnt(since string) string
	// Sign writes this process's note. After an error it is soon tried again.
	Sign(ctx context.Context, text string) error
	// Notes returns the notes of all daemons, and the text that those have learnt which have learnt of everything.
	Notes(ctx context.Context) (notes map[string]string, changes string, err error)
	// Forget deletes the note of a daemon that has been silent for a day. false: that one still runs.
	Forget(ctx context.Context, key string) (bool, error)
}

// What errors of Drivers are besides those of package counter. See As.
var (
	ErrAgain     = errors.New("others wrote")             // nothing was written
	ErrDoubt     = errors.New("a record may be lost")     // New: whatever record comes, it must be raised
	ErrUncounted = errors.New("the write does not count") // Swap: what was granted is to be given back
	ErrUnsettled = errors.New("the record is unsettled")  // Entry.Reserve: Settle first
)

// As returns err in its own words, as an error that is also a what.
func As(what, err error) error { return marked{err, what} }

type marked struct {
	error
	what error
}

func (m marked) Unwrap() []error { return []error{m.what, m.error} }
