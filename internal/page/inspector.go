package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/inspect"
)

// An answer is what the inspector says of a text. Either Problem is set, or there are readings.
type answer struct {
	Text     string // the id, as it was given
	Problem  string
	Readings []reading
	Values   []string // names of sequences that the number may be a value of
}

// A reading is an id as one layout has it.
type reading struct {
	inspect.ID
	Layout string
	Doubt  string // why it can hardly be an id of this layout; empty = it can
	Bits   []fact // of a snowflake: the name of each part, and its bits
}

const (
	maxID     = 64 // characters; an id has at most 36
	maxValues = 5  // names of sequences that are told
)

// inspectText takes apart what somebody has pasted.
func inspectText(v *View, pasted string) *answer {
	text := strings.Trim(pasted, " \t\r\n\"'`,;")
	switch n := utf8.RuneCountInString(text); {
	case text == "":
		return nil
	case n > maxID:
		return &answer{Problem: fmt.Sprintf("This is not an id: it has %s characters, and an id has at most 36.",
			number(uint64(n)))}
	}
	a := &answer{Text: text}
	x, err := inspect.TakeApart(text, v.Layout)
	if err != nil {
		return &answer{Problem: "This is " + strings.TrimPrefix(err.Error(), "generator: ") + "."}
	}
	a.Readings = []reading{v.read(x, v.Layout)}
	if x.Kind != "snowflake" {
		return a
	}
	for _, l := range v.Others {
		if x, err := inspect.TakeApart(text, l); err == nil {
			a.Readings = append(a.Readings, v.read(x, l))
		}
	}
	value, _ := strconv.ParseUint(text, 10, 64)
	for _, n := range v.Names {
		q := n.Sequence
		if q != nil && !q.Hidden && q.has(value) && len(a.Values) < maxValues {
			a.Values = append(a.Values, n.Name)
		}
	}
	return a
}

// read completes what an id says in a layout.
func (v *View) read(x inspect.ID, l generator.Layout) reading {
	r := reading{ID: x, Layout: l.String()}
	if x.Time == nil {
		return r
	}
	if x.Kind == "snowflake" {
		value, _ := strconv.ParseUint(x.Text, 10, 64)
		digits := fmt.Sprintf("%064b", value)
		part := func(name string, n uint8) {
			if name == "worker" && n == 0 {
				return
			}
			r.Bits = append(r.Bits, fact{name, digits[:n]})
			digits = digits[n:]
		}
		part("rest", 64-l.TimeBits-l.WorkerBits-l.SequenceBits)
		if l.WorkerHigh {
			part("worker", l.WorkerBits)
		}
		part("tick", l.TimeBits)
		if !l.WorkerLow && !l.WorkerHigh {
			part("worker", l.WorkerBits)
		}
		part("sequence", l.SequenceBits)
		if l.WorkerLow {
			part("worker", l.WorkerBits)
		}
		if x.Excess {
			r.Doubt = "It has more bits than ids of this layout."
		}
	}
	if ahead := x.Time.Sub(v.Now); ahead > v.RunAhead+time.Minute && r.Doubt == "" {
		r.Doubt = "That is in the future: it is hardly an id of this layout."
	}
	return r
}

// age says how long ago the id was made.
func (r *reading) age(now time.Time) string {
	d := now.Sub(*r.Time)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// utc is how the inspector shows times, in UTC; zoned is the same with a zone.
const (
	utc   = "2006-01-02 15:04:05.000 UTC"
	zoned = "2006-01-02 15:04:05.000 MST (-07:00)"
)
