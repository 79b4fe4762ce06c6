package script

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A section of a file. The first one is what stands before all sections, and has no name.
type section struct {
	name    string
	title   string   // with what stands behind it
	kinds   []string // that play it; nil = the file has none
	entries []*entry
}

// An entry is a command with its answer, or another line.
type entry struct {
	line    string
	answers []said
	played  bool
	got     []string // what came of it now
}

// A said line is one of the answers of some kinds.
type said struct {
	kinds []string // nil = the file has none
	text  string
}

var (
	titles     = regexp.MustCompile(`^(.*?)(?: \[([^\]]*)\])?$`)
	ofSome     = regexp.MustCompile(`^([a-z][a-z -]*) \| (.*)$`)
	headOfFile = regexp.MustCompile(`(?m)^kinds: (.*)$`)
	atFile     sync.Mutex // held while a file is read or written
)

// read reads a file.
func read(t *testing.T, path string) []*section {
	t.Helper()
	atFile.Lock()
	defer atFile.Unlock()
	return parse(t, path)
}

func parse(t *testing.T, path string) (f []*section) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	if head := headOfFile.FindStringSubmatch(string(text)); head != nil {
		all = strings.Fields(head[1])
	}
	f = []*section{{kinds: all}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		last := f[len(f)-1]
		if title, ok := strings.CutPrefix(line, "== "); ok {
			s := &section{name: title, title: title, kinds: all}
			if m := titles.FindStringSubmatch(title); all != nil && m[2] != "" {
				s.name, s.kinds = m[1], strings.Fields(m[2])
			}
			f = append(f, s)
		} else if answer, ok := strings.CutPrefix(line, "\t"); ok {
			a := said{last.kinds, answer}
			if m := ofSome.FindStringSubmatch(answer); all != nil && m != nil {
				a = said{strings.Fields(m[1]), m[2]}
			}
			e := last.entries[len(last.entries)-1]
			e.answers = append(e.answers, a)
		} else {
			last.entries = append(last.entries, &entry{line: line})
		}
	}
	return f
}

// of is the answer of a kind.
func (e *entry) of(kind string) (lines []string) {
	for _, a := range e.answers {
		if a.kinds == nil || slices.Contains(a.kinds, kind) {
			lines = append(lines, a.text)
		}
	}
	return lines
}

// put makes lines the answer of a kind.
func (e *entry) put(kind string, kinds, lines []string) {
	if kinds == nil {
		e.answers = nil
	}
	for i, a := range e.answers {
		e.answers[i].kinds = slices.DeleteFunc(slices.Clone(a.kinds), func(k string) bool { return k == kind })
	}
	e.answers = slices.DeleteFunc(e.answers, func(a said) bool { return len(a.kinds) == 0 })
	at := 0
	for _, line := range lines {
		i := slices.IndexFunc(e.answers[at:], func(a said) bool { return a.text == line })
		if i < 0 {
			i = 0
			e.answers = slices.Insert(e.answers, at, said{text: line})
		}
		if at += i; kinds != nil {
			e.answers[at].kinds = append(e.answers[at].kinds, kind)
		}
		at++
	}
}

// write writes what a kind has played into a file, which other kinds may have written since.
func write(t *testing.T, path, kind string, played []*section) {
	t.Helper()
	atFile.Lock()
	defer atFile.Unlock()
	var b strings.Builder
	for i, s := range parse(t, path) {
		if i > 0 {
			b.WriteString("== " + s.title + "\n")
		}
		for j, e := range s.entries {
			if now := played[i].entries[j]; now.played {
				e.put(kind, s.kinds, now.got)
			}
			b.WriteString(e.line + "\n")
			for _, a := range e.answers {
				if slices.Sort(a.kinds); len(a.kinds) < len(s.kinds) {
					a.text = strings.Join(a.kinds, " ") + " | " + a.text
				}
				b.WriteString("\t" + a.text + "\n")
			}
		}
	}
	if err := os.WriteFile(path, []byte(strings.TrimSpace(b.String())+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
