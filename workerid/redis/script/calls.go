package script

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A Call is a script with its arguments.
type Call interface {
	Call() (script string, args []string)
}

// Acquire asks for a worker id.
type Acquire struct {
	Terms
	Now       int64 // the daemon's clock, Unix ms
	RequestID string
	Owner     string
	From, To  uint64
	Init      bool     // make the pool if there is none; its worker ids are not available at once
	New       bool     // this owner never asked before
	Known     []string // request ids of this owner's unanswered acquisitions
}

// Call implements Call.
func (c Acquire) Call() (string, []string) {
	args := append(c.args(c.Now, c.RequestID), c.Owner, id(c.From), id(c.To), flag(c.Init), flag(c.New))
	return "acquire", append(args, c.Known...)
}

// Acquired is the answer to Acquire: the owner has Worker from Lo to Hi. Hi = Lo − 1 if Lo is further
// ahead than a lease.
type Acquired struct {
	Server
	Worker uint64
	Lo, Hi int64
}

// ReadAcquired reads the answer to Acquire.
func ReadAcquired(reply any) (Acquired, error) {
	a := read(reply)
	r := Acquired{Server: a.server(), Worker: a.worker(), Lo: a.number(), Hi: a.number()}
	return r, a.err
}

// Extend asks for longer windows.
type Extend struct {
	Terms
	Now       int64
	RequestID string
	Lanes     []Lane
}

// A Lane is one grant to extend.
type Lane struct {
	Grant workerid.Grant
	// the incarnation of the store in which it was last known to be held; empty: this daemon knows
	// nothing about it
	Incarnation string
	Known       []string // request ids that its record may have
}

// Call implements Call.
func (c Extend) Call() (string, []string) {
	args := c.args(c.Now, c.RequestID)
	for _, l := range c.Lanes {
		args = append(args, id(l.Grant.Worker), l.Grant.Owner, ms(l.Grant.Lo), ms(l.Grant.Hi), l.Incarnation,
			strconv.Itoa(len(l.Known)))
		args = append(args, l.Known...)
	}
	return "extend", args
}

// Extended is the answer to Extend: for each lane the window after the old one, or workerid.ErrLost or
// ErrCloned.
type Extended struct {
	Server
	Results []workerid.Result
}

// ReadExtended reads the answer to c.
func ReadExtended(c Extend, reply any) (Extended, error) {
	a := read(reply)
	r := Extended{Server: a.server(), Results: make([]workerid.Result, len(c.Lanes))}
	for i, l := range c.Lanes {
		lane := read(a.next())
		switch status := lane.text(); status {
		case "OK":
			r.Results[i].Grant = workerid.Grant{Worker: l.Grant.Worker, Owner: l.Grant.Owner, Lo: lane.number(),
				Hi: lane.number()}
		case "LOST":
			r.Results[i].Err = workerid.ErrLost
		case "CLONED":
			r.Results[i].Err = workerid.ErrCloned
		default:
			lane.err = fmt.Errorf("redis: a lane was answered with %q", status)
		}
		a.err = cmp.Or(a.err, lane.err)
	}
	return r, a.err
}

// Release gives a worker id back. Its generator is sealed. Last is the last Unix ms that it issued
// ids from.
type Release struct {
	Terms
	Now       int64
	RequestID string
	Grant     workerid.Grant
	Last      int64
	Known     []string // request ids that its record may have
}

// Call implements Call.
func (c Release) Call() (string, []string) {
	args := append(c.args(c.Now, c.RequestID), id(c.Grant.Worker), c.Grant.Owner, ms(c.Grant.Hi), ms(c.Last))
	return "release", append(args, c.Known...)
}

// ReadReleased reads the answer to Release.
func ReadReleased(reply any) (Server, error) {
	a := read(reply)
	s := a.server()
	return s, a.err
}
