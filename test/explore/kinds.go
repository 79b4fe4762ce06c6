package explore

import (
	_ "embed" // this file, which has the names
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Kind is one of choice; a world says what it means.
type Kind uint8

// The kinds of choice that worlds have in common, and those of single ones.
const (
	Default    Kind = iota // the choice that costs nothing
	Put                    // off: a daemon's call comes after the next event
	LateSend               // a request is sent after the next event
	LateAnswer             // an answer comes after the next event
	NoRequest              // a request is lost
	NoAnswer               // an answer is lost
	Breaks                 // all connections break before a request
	Pause                  // of a daemon, before its call
	StopSend               // a daemon is stopped when it is about to send a request
	Kill                   // and start again
	Expire                 // all sessions
	Backup                 // of the store, and Restore of it later
	Restore
	Raise     // the floor, by an operator
	Wipe      // the pool, and make it again
	Free      // a worker id, by an operator
	Jump      // of a daemon's clock, within the maximum skew; of a host's clock
	Power     // is cut
	Fails     // a request, with an error
	Delete    // files
	Lose      // the memory that outlives processes
	Copied    // that memory is replaced by a copy
	Overwrite // that memory, while it is in use
	Delayed   // a request: it is carried out when nobody waits for it any more
	Held      // a request of a client, after its moment was read
	Between   // a request of a client is held after until was read
	Demote    // the leader
	Stop      // a daemon, cleanly, and start it again
	Cut       // a daemon off from the store
	Promote   // the replica
)

//go:embed kinds.go
var source string

// kindNames are the names of the kinds, as this file lists them.
var kindNames = regexp.MustCompile(`(?m)^\t[A-Z]\w+`).FindAllString(source, -1)

// String is the name of a Kind.
func (k Kind) String() string { return strings.TrimSpace(kindNames[k]) }

//go:embed say.txt
var sentences string

// say is what a choice means in a world, by say.txt. There pairs of words are a word and what stands for it, and of
// [one|another] the choice's Arg says which.
func say(world string, c Choice, pairs ...string) string {
	_, text, there := strings.Cut(sentences, "\n"+world+" "+c.Kind.String()+": ")
	if !there {
		_, text, _ = strings.Cut(sentences, "\nany "+c.Kind.String()+": ")
	}
	text, _, _ = strings.Cut(text, "\n")
	for {
		before, rest, more := strings.Cut(text, "[")
		if !more {
			return strings.NewReplacer(pairs...).Replace(text)
		}
		ways, after, _ := strings.Cut(rest, "]")
		text = before + strings.Split(ways, "|")[c.Arg] + after
	}
}

// nextEvent is when something comes that is only late.
const nextEvent = "after the next event"

// place is that of a choice within an event.
func place(c Choice) string { return fmt.Sprintf("request %d", c.At+1) }

func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func serverName(i int) string { return "server " + string(rune('a'+i)) }
