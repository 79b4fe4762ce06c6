package counter

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ErrNoRoll is the error of Admin.Behind for a Store that does not know which daemons use it.
var ErrNoRoll = errors.New("the counter store does not know its daemons")

// A Daemon is a process that uses a Store.
type Daemon struct {
	Name   string        // HOST/PID
	Silent time.Duration // since it was last heard of
}

const (
	noteEvery   = 10 * time.Second // a daemon that has learnt nothing new says that it is there
	forgetAfter = 24 * time.Hour   // a daemon that has not said anything
)

// A Note is what a daemon writes down in a Store of itself: which changes it has learnt of. The zero Note
// was never written. One goroutine at a time may use it.
type Note struct {
	since string
	at    time.Time
}

// Next returns what to write now that the daemon has learnt of all changes up to since; empty = nothing.
// It is not written again at once if that fails, as only Behind depends on it.
func (n *Note) Next(since string, now time.Time) string {
	if n.Written() && n.since == since && now.Sub(n.at) < noteEvery {
		return ""
	}
	n.since, n.at = since, now
	host, _ := os.Hostname()
	return fmt.Sprintf("%d %s/%d %s", now.UnixMilli(), strings.ReplaceAll(host, " ", "_"), os.Getpid(), since)
}

// Written reports whether there is something to take away when the daemon ends.
func (n *Note) Written() bool { return !n.at.IsZero() }

// Behind reads the notes of all daemons, by their keys. changes is what Changes returns now. forget has
// the keys of daemons that have been silent for a day, which the caller deletes.
func Behind(notes map[string]string, changes string, now time.Time) (behind []Daemon, forget []string) {
	for key, text := range notes {
		d, since := ReadNote(text, now)
		switch {
		case d.Silent > forgetAfter:
			forget = append(forget, key)
		case since != changes:
			behind = append(behind, d)
		}
	}
	return behind, forget
}

// ReadNote reads the note of a daemon: who it is, and up to which changes it has learnt.
func ReadNote(text string, now time.Time) (d Daemon, since string) {
	at, rest, _ := strings.Cut(text, " ")
	d.Name, since, _ = strings.Cut(rest, " ")
	ms, _ := strconv.ParseInt(at, 10, 64)
	d.Silent = max(now.Sub(time.UnixMilli(ms)), 0)
	return d, since
}
