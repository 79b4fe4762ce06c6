// Package kinds reads definition lines: which name stands for which kind of id. The flags, the file of
// -names and `katsubushi name` use the same lines.
//
//	orders sequence start=1 step=2 offset=1 order=strict
//	old snowflake layout=instagram
//	tx snowflake layout=katsubushi order=strict node=1023
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
	"github.com/katsubushi/katsubushi/v3/generator"
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
	MaxFile  = 4 << 20       // bytes of a file of definitions
	Others   = "_other"      // in metrics: all names beyond the first thousand. Reserved
)

// A Definition says what one name stands for. Definitions are equal (==) if they mean the same.
type Definition struct {
	// Of a sequence, all of it: the values are those from Start to Max that are congruent to Offset modulo
	// Step, and there is at least one. So of a snowflake with order=strict, whose values are the positions of its
	// layout. Of other kinds the name, of 1 to MaxName bytes, and zeros.
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
	{Snowflake, []option{
		{"layout", setLayout},
		{"order", setOrder},
		{"node", setNode},
		{"ahead", setAhead},
	}},
	{Sequence, []option{
		{"start", number(func(d *Definition) *uint64 { return &d.Start }, MaxValue)},
		{"step", number(func(d *Definition) *uint64 { return &d.Step }, MaxValue)},
		{"offset", number(func(d *Definition) *uint64 { return &d.Offset }, MaxValue)},
		{"max", number(func(d *Definition) *uint64 { return &d.Max }, MaxValue)},
		{"order", setOrder},
		{"batch", number(func(d *Definition) *uint64 { return &d.Batch }, counter.MaxBatch)},
		{"rate", number(func(d *Definition) *uint64 { return &d.Rate }, counter.MaxRate)},
		{"on-loss", setOnLoss},
	}},
	{UUID4, nil},
	{UUID7, nil},
	{ULID, nil},
	{ObjectID, nil},
}

// Parse reads one definition line. The error has everything that is wrong with it, joined. Beside an error the
// Definition is zero, or it is Timed: then its layout and node are known, and what else is wrong with them can be told.
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
		problems = append(problems, fmt.Errorf("%.70q: a kind must follow the name: %s", d.Name, kindNames()))
	} else if !known {
		problems = append(problems, fmt.Errorf("%.70q is not a kind: %s", d.Kind, kindNames()))
	} else {
		problems = append(problems, d.setOptions(options, words[2:])...)
	}
	err := errors.Join(problems...)
	if err != nil && !d.Timed() {
		return Definition{}, err
	}
	return d, err
}

// setOptions sets what the words of a definition say.
func (d *Definition) setOptions(options []option, words []string) (problems []error) {
	given, wrong := map[string]bool{}, map[string]bool{}
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
				wrong[name] = true
				problems = append(problems, fmt.Errorf("%.70q: %w", word, err))
			}
		}
	}
	switch {
	case d.Kind == Sequence && len(problems) == 0:
		problems = d.completeSequence()
	case d.Kind == Snowflake:
		problems = append(problems, d.completeTimestamps(given, wrong)...)
	}
	return problems
}

// Recorded reports whether the counter store has a record of it.
func (d Definition) Recorded() bool { return d.Kind == Sequence || d.Timed() }

// completeTimestamps sets the defaults of a snowflake with order=strict and checks its options together. The wrong ones
// were told already.
func (d *Definition) completeTimestamps(given, wrong map[string]bool) (problems []error) {
	if !d.Strict {
		for _, option := range []string{"node", "ahead"} {
			if given[option] {
				problems = append(problems, fmt.Errorf("%s= is for order=strict", option))
			}
		}
		if strings.Contains(d.Layout, ":") { // each layout beside the daemon's own costs memory
			problems = append(problems, fmt.Errorf("layout=%s: segments are for order=strict, else a name is needed", d.Layout))
		}
		return problems
	}
	l, err := generator.ParseLayout(d.Layout)
	for _, option := range []string{"layout", "node"} {
		if !given[option] && (option != "node" || err != nil || l.WorkerBits > 0) {
			problems = append(problems, fmt.Errorf("order=strict: %s= is needed too", option))
		}
	}
	d.Start, d.Step, d.Offset = 1, 1, 1
	if err == nil && (given["node"] || l.WorkerBits == 0) && !wrong["node"] {
		d.Time.Layout = d.Layout
	}
	if !given["ahead"] || wrong["ahead"] {
		d.Time.Ahead = counter.DefaultAhead
	}
	if err != nil { // told already
		return problems
	}
	if d.Max = l.LastPosition(); d.Time.Node > l.MaxWorker() {
		problems = append(problems, fmt.Errorf("node=%d: layout %s has 0 to %d", d.Time.Node, l, l.MaxWorker()))
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
	if d.Timed() {
		b.WriteString(" order=strict")
		if IDLayout(d.Definition).WorkerBits > 0 {
			b.WriteString(" node=" + strconv.FormatUint(d.Time.Node, 10))
		}
		if d.Time.Ahead != counter.DefaultAhead {
			b.WriteString(" ahead=" + d.Time.Ahead.String())
		}
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
