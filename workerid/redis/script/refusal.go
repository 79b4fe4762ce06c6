package script

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Errors in addition to those of package workerid. With each of them it is certain that nothing was
// granted.
var (
	// ErrNotInitialised: there is no pool of that name, or it is one of yaraus's. Retry; an
	// operator must initialise it.
	ErrNotInitialised = errors.New("the pool of worker ids is not initialised")
	// ErrNotMaster: the server is a replica. Retry after finding the master.
	ErrNotMaster = errors.New("the server is not a master")
	// ErrClockBack: the server's clock is far behind what it was. Retry; an operator must correct or
	// accept it.
	ErrClockBack = errors.New("the server's clock went back")
	// ErrClockForward: the server's clock jumped forward since the last call, perhaps only for a
	// moment. Retry; it is accepted if it stays there.
	ErrClockForward = errors.New("the server's clock went forward")
	// ErrClockSteady, from ResetClock: the server's clock did not go back. Nothing was done, and
	// nothing needs to be done.
	ErrClockSteady = errors.New("the server's clock did not go back: there is nothing to reset")
	// ErrReplicas: more replicas are connected than must have a grant, so one without it could be
	// promoted. Retry; an operator must change the number.
	ErrReplicas = errors.New("more replicas are connected than must have a grant")
	// ErrHeld: daemons that must stop first hold worker ids.
	ErrHeld = errors.New("worker ids are held")
)

// A Refusal is a script's answer that it refuses the call, and why.
type Refusal struct {
	Code   string   // without KATSU_
	Fields []string // details
}

// ParseRefusal parses the text of a Redis error. Not every error is a Refusal.
func ParseRefusal(text string) (Refusal, bool) {
	text, ok := strings.CutPrefix(text, "KATSU_")
	if !ok {
		return Refusal{}, false
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return Refusal{}, false
	}
	return Refusal{words[0], words[1:]}, true
}

func (r Refusal) field(i int) string {
	if i < len(r.Fields) {
		return r.Fields[i]
	}
	return "?"
}

func (r Refusal) duration(i int) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	n, _ := strconv.ParseInt(r.field(i), 10, 64)
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}

// Skew returns how far the server's clock is ahead of the daemon's, if that is the reason.
func (r Refusal) Skew() (ahead time.Duration, ok bool) { return r.duration(0), r.Code == "SKEW" }

// RetryAfter returns when the answer may change if nothing else happens, or 0 if that is unknown.
func (r Refusal) RetryAfter() time.Duration {
	switch r.Code {
	case "NOID":
		return r.duration(0)
	case "JUMP":
		return r.duration(1)
	}
	return 0
}

// Unwrap returns the error that the code stands for.
func (r Refusal) Unwrap() error {
	switch r.Code {
	case "LOST":
		return workerid.ErrLost
	case "NOID":
		if r.duration(0) > 0 {
			return workerid.ErrNoneYet
		}
		return workerid.ErrNoID
	case "SKEW":
		return workerid.ErrSkew
	case "FOREIGN":
		return workerid.ErrForeignPool
	case "NOINIT":
		return ErrNotInitialised
	case "NOTMASTER":
		return ErrNotMaster
	case "CLOCK":
		return ErrClockBack
	case "JUMP":
		return ErrClockForward
	case "STEADY":
		return ErrClockSteady
	case "REPLICAS":
		return ErrReplicas
	case "HELD":
		return ErrHeld
	}
	return nil
}

func (r Refusal) Error() string {
	what := r.Unwrap()
	if what == nil {
		return "redis: refused: " + strings.Join(append([]string{r.Code}, r.Fields...), " ")
	}
	switch wait := r.duration(0); {
	case r.Code == "NOID" && wait > 0:
		return fmt.Sprintf("%v: none is given out for another %v, as grants may have been forgotten", workerid.ErrNoID, wait)
	case r.Code == "SKEW" && wait > 0:
		return fmt.Sprintf("%v: Redis's is %v ahead", what, wait)
	case r.Code == "SKEW":
		return fmt.Sprintf("%v: Redis's is %v behind", what, -wait)
	case r.Code == "FOREIGN":
		return fmt.Sprintf("%v: theirs are %s", what, r.field(0))
	case r.Code == "NOINIT" && r.field(0) == "yaraus":
		return fmt.Sprintf("%v: it is one of yaraus's, which `katsubushi lease init -how new` adopts", what)
	case r.Code == "NOINIT":
		return fmt.Sprintf("%v: `katsubushi lease init` does it (-how new, if there never was one)", what)
	case r.Code == "NOTMASTER":
		return fmt.Sprintf("%v: its role is %s", what, r.field(0))
	case r.Code == "CLOCK":
		return fmt.Sprintf("%v by %v: set it right, or accept it with `katsubushi lease reset-clock`", what, wait)
	case r.Code == "JUMP":
		return fmt.Sprintf("%v by %v, and worker ids were held then: accepted if it lasts another %v", what, wait,
			r.duration(1))
	case r.Code == "REPLICAS":
		return fmt.Sprintf("%v: %s are, and %s must; `katsubushi lease replicas %s` changes that", what, r.field(0),
			r.field(1), r.field(0))
	case r.Code == "HELD":
		return fmt.Sprintf("%v: %s is", what, r.field(0))
	}
	return what.Error()
}
