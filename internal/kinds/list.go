package kinds

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxProblems limits how many problems of one file are told.
const maxProblems = 100

// A List collects definitions from flags and files, and everything that is wrong with them. The zero
// value is empty.
type List struct {
	// Check says what else is wrong with a definition, which is valid otherwise, or see Parse; nil = nothing.
	Check func(Definition) error

	all   []Definition
	where map[string]string // the place of each name, and of each node, for the message about a second one
}

// All returns the definitions in the order in which they were added.
func (l *List) All() []Definition { return l.all }

// Add adds definition lines, separated by line feeds or semicolons, as a flag has them. A # begins a
// comment. The error names each line that is wrong by its text; the other lines are added.
func (l *List) Add(text string) error {
	var problems []error
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == ';' }) {
		if line = withoutComment(line); line != "" {
			problems = append(problems, l.add(line, fmt.Sprintf("%.200q", line)))
		}
	}
	return errors.Join(problems...)
}

// AddFile adds the lines of a file: one definition each; a # begins a comment. The error names each line
// that is wrong by its number, counted from 1.
func (l *List) AddFile(text []byte) error {
	var problems []error
	more, number := 0, 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = withoutComment(line); line == "" {
			continue
		}
		err := l.add(line, fmt.Sprintf("line %d", number))
		switch {
		case err != nil && len(problems) == maxProblems:
			more++
		case err != nil:
			problems = append(problems, err)
		}
	}
	if more > 0 {
		problems = append(problems, fmt.Errorf("and %d more lines are wrong", more))
	}
	return errors.Join(problems...)
}

// ReadFile returns the content of a file of definitions, for AddFile. It may be a pipe.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("%s: more than %d bytes", path, MaxFile)
	}
	return text, err
}

// add adds one line; where names it in messages.
func (l *List) add(line, where string) error {
	d, err := Parse(line)
	if l.Check != nil && (err == nil || d.Timed()) {
		err = errors.Join(err, l.Check(d))
	}
	if l.where == nil {
		l.where = map[string]string{}
	}
	name := strings.Fields(line)[0]
	if first := l.where[name]; first != "" {
		err = errors.Join(err, fmt.Errorf("%q is declared already, by %s", name, first))
	} else if CheckName(name) == nil {
		l.where[name] = where
	}
	if d.Timed() {
		node := fmt.Sprintf("node=%d of layout %s", d.Time.Node, d.Layout)
		if first := l.where[node]; first != "" {
			err = errors.Join(err, fmt.Errorf("%s is taken already, by %s", node, first))
		}
		l.where[node] = where
	}
	if err == nil && len(l.all) == MaxNames {
		err = fmt.Errorf("more than %d names", MaxNames)
	}
	if err != nil {
		return each(where, err)
	}
	l.all = append(l.all, d)
	return nil
}

// each puts the place before every problem of a line.
func each(where string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", where, err)
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, each(where, e))
	}
	return errors.Join(all...)
}

func withoutComment(line string) string {
	line, _, _ = strings.Cut(line, "#")
	return strings.TrimSpace(line)
}
