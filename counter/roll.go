package counter

import (
	"errors"
	"time"
)

// ErrNoRoll is the error of Admin.Behind for a Store that does not know which daemons use it.
var ErrNoRoll = errors.New("the counter store does not know its daemons")

// A Daemon is a process that uses a Store.
type Daemon struct {
	Name   string        // HOST/PID
	Silent time.Duration // since it was last heard of
}
