// Package kinds reads definition lines: which name stands for which kind of id. The flags, the file of
// -generators and `katsubushi generator` use the same lines.
//
//	orders sequence start=1 step=2 offset=1 order=strict
//	old snowflake layout=instagram
//	sessions uuid7
//
// The guarantee: a Definition that this package returned is valid, and its String is a line from which
// Parse makes an equal Definition. Not promised: that a daemon can serve it. Whether worker ids fit, and
// where a sequence is recorded, only the daemon knows.
package kinds

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// The kinds of id.
const (
	Snowflake = "snowflake" // a number: time, worker id, sequence
	Sequence  = "sequence"  // a rising number
	UUID4     = "uuid4"
	UUID7     = "uuid7"
	ULID      = "ulid"
	ObjectID  = "objectid"
)

// Limits.
const (
	MaxName  = 64            // bytes of a name
	MaxNames = 10_000        // definitions that a daemon has at once
	MaxValue = math.MaxInt64 // the largest value of a sequence
	MaxBatch = 10_000_000    // values that a sequence reserves at once
	MaxRate  = 10_000_000    // values a second
	MaxFile  = 4 << 20       // bytes of a file of definitions
	Others   = "_other"      // in metrics: all names beyond the first thousand. Reserved
)

// A Definition says what one name stands for. Definitions are equal (==) if they mean the same.
type Definition struct {
	// Of a sequence, all of it: the values are those from Start to Max that are congruent to Offset modulo
	// Step, and there is at least one. Of other kinds the name, of 1 to MaxName bytes, and zeros.
	counter.Definition
	Kind   string // one of the constants
	Layout string // of a snowflake: a layout's name; empty = the daemon's own layout
}

// An option is a word KEY=VALUE of a definition line.
type option struct {
	name string
	set  func(d *Definition, value string) error
}

// table lists the kinds with their options.
var table = []struct {
	kind    string
	options []option
}{
	{Snowflake, []option{{"layout", setLayout}}},
	{Sequence, []option{
		{"start", number(func(d *Definition) *uint64 { return &d.Start }, MaxValue)},
		{"step", number(func(d *Definition) *uint64 { return &d.Step }, MaxValue)},
		{"offset", number(func(d *Definition) *uint64 { return &d.Offset }, MaxValue)},
		{"max", number(func(d *Definition) *uint64 { return &d.Max }, MaxValue)},
		{"order", setOrder},
		{"batch", number(func(d *Definition) *uint64 { return &d.Batch }, MaxBatch)},
		{"rate", number(func(d *Definition) *uint64 { return &d.Rate }, MaxRate)},
		{"on-loss", setOnLoss},
	}},
	{UUID4, nil},
	{UUID7, nil},
	{ULID, nil},
	{ObjectID, nil},
}

// Parse reads one definition line. The error has everything that is wrong with it, joined.
func Parse(line string) (Definition, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Definition{}, errors.New("a name and a kind are needed, such as: orders sequence start=1")
	}
	d := Definition{Definition: counter.Definition{Name: words[0]}}
	problems := []error{CheckName(d.Name)}
	var options []option
	known := false
	if len(words) > 1 {
		d.Kind = words[1]
	}
	for _, k := range table {
		if k.kind == d.Kind {
			options, known = k.options, true
		}
	}
	if len(words) == 1 {
		problems = append(problems, fmt.Errorf("%.70q: a kind is needed behind the name: %s", d.Name, kindNames()))
	} else if !known {
		problems = append(problems, fmt.Errorf("%.70q is no kind: %s", d.Kind, kindNames()))
	} else {
		problems = append(problems, d.setOptions(options, words[2:])...)
	}
	if err := errors.Join(problems...); err != nil {
		return Definition{}, err
	}
	return d, nil
}

// setOptions sets what the words of a definition say.
func (d *Definition) setOptions(options []option, words []string) (problems []error) {
	given := map[string]bool{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		var set func(*Definition, string) error
		for _, o := range options {
			if o.name == name {
				set = o.set
			}
		}
		switch {
		case set == nil && len(options) == 0:
			problems = append(problems, fmt.Errorf("%.70q: %s has no options", word, d.Kind))
		case set == nil || !ok:
			problems = append(problems, fmt.Errorf("%.70q: %s has the options %s", word, d.Kind, optionNames(options)))
		case given[name]:
			problems = append(problems, fmt.Errorf("%s is there twice", name))
		default:
			given[name] = true
			if err := set(d, value); err != nil {
				problems = append(problems, fmt.Errorf("%.70q: %w", word, err))
			}
		}
	}
	if d.Kind == Sequence && len(problems) == 0 {
		problems = d.completeSequence()
	}
	return problems
}

// completeSequence sets the defaults of a sequence and checks its numbers together.
func (d *Definition) completeSequence() (problems []error) {
	for field, value := range map[*uint64]uint64{&d.Start: 1, &d.Step: 1, &d.Max: MaxValue} {
		if *field == 0 {
			*field = value
		}
	}
	if d.Offset == 0 { // start is the first value
		d.Offset = (d.Start-1)%d.Step + 1
	}
	if d.Offset > d.Step {
		problems = append(problems, fmt.Errorf("offset=%d: 1 to %d allowed, the step", d.Offset, d.Step))
	}
	if d.Rate != 0 && d.RefuseLoss {
		problems = append(problems,
			errors.New("rate= and on-loss=refuse: a ceiling is for going on after a loss: one of the two is allowed"))
	}
	if d.Start > d.Max {
		problems = append(problems, fmt.Errorf("start=%d: more than max, %d", d.Start, d.Max))
	}
	if len(problems) == 0 && d.First() > d.Max {
		problems = append(problems,
			fmt.Errorf("no value from start=%d to max=%d fits step=%d offset=%d", d.Start, d.Max, d.Step, d.Offset))
	}
	return problems
}

// String returns the definition as a line, without options that have their default.
func (d Definition) String() string {
	var b strings.Builder
	b.WriteString(d.Name + " " + d.Kind)
	say := func(name string, v uint64) { b.WriteString(" " + name + "=" + strconv.FormatUint(v, 10)) }
	if d.Layout != "" {
		b.WriteString(" layout=" + d.Layout)
	}
	if d.Kind != Sequence || d.Step == 0 { // of a sequence whose record cannot be read
		return b.String()
	}
	say("start", d.Start)
	if d.Step != 1 {
		say("step", d.Step)
		say("offset", d.Offset)
	}
	if d.Max != MaxValue {
		say("max", d.Max)
	}
	if d.Strict {
		b.WriteString(" order=strict")
	}
	if d.Batch != 0 {
		say("batch", d.Batch)
	}
	if d.Rate != 0 {
		say("rate", d.Rate)
	}
	if d.RefuseLoss {
		b.WriteString(" on-loss=refuse")
	}
	return b.String()
}
