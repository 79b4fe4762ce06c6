package id

// A Source issues ids of one kind to one event loop. It is comparable: keys whose sources are equal
// may share a Mint.
type Source interface {
	// Mint issues between 1 and n ids; n must be at least 1. bulk means that the client asks for many ids
	// at once; bulk is refused before single ids are. After an error nothing was issued. If the error is
	// ErrWait, ask again later; the text of any other error is for the client. Mint may be called from
	// several goroutines at once, and does no I/O.
	Mint(when When, n int, bulk bool) (Run, error)
}

// When says for which moment a request asks.
type When struct {
	Now int64 // when the caller's turn began, Unix ms
	// Moment is one at which the request had arrived, on the clock of Punctual.Moment; 0 = the caller has not read it.
	// Only a Punctual looks at it.
	Moment int64
	// Redirect asks a Punctual whose ids another server issues to say where, not to fetch them.
	Redirect bool
}

// At returns the When of a turn that began at now, Unix ms.
func At(now int64) When { return When{Now: now} }

// A Reserver is a Source of counted numbers: a client may ask for a whole range of them.
type Reserver interface {
	Source
	// Reserve issues exactly n numbers that follow each other, or none; n is 1 to MaxReserve. Errors
	// are those of Mint.
	Reserve(when When, n int) (Run, error)
}

// A Texter is a Source whose ids are not numbers.
type Texter interface {
	Source
	Form() Form // never Decimal
}

// A Form is a way to write ids.
type Form uint8

const (
	Decimal  Form = iota // a number
	UUID                 // RFC 9562: 36 characters, lower-case
	ULID                 // 26 characters of Crockford's base 32, upper-case
	ObjectID             // 24 hexadecimal digits, lower-case
)

// MaxReserve is the most numbers that one Reserve issues.
const MaxReserve = 1 << 16

// ErrWait is returned by a Source that has no id at this moment but will have one soon, or a reason
// to refuse. The caller must not answer the client yet; it asks again when it is woken, or after a
// short while. Its method Wait tells packages that do not import this one.
var ErrWait error = waitError{}

type waitError struct{}

func (waitError) Error() string { return "id: none at this moment, ask again" }

// Wait reports that the caller should ask again.
func (waitError) Wait() bool { return true }

// An UnknownName is the error of a Source for a key that names no generator, where undeclared keys are
// refused. It is the client's mistake: asking again, or another server, does not help.
type UnknownName string

func (n UnknownName) Error() string { return "no such generator: " + string(n) }

// A NotPermitted is the error of a Source for a key that the user has no right to. Nothing was issued.
// It stays so until a store grants the right.
type NotPermitted string

func (n NotPermitted) Error() string { return "not permitted: " + string(n) }
