package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
)

// A table knows the subcommands, their verbs and their flags as the program itself does.
type table struct {
	t       *testing.T
	program string
	verbs   map[string][]string // of each subcommand
	known   map[string]bool     // "SUBCOMMAND VERB -FLAG"
}

func newTable(t *testing.T) *table {
	tab := &table{t: t, program: daemonrun.Program(t), verbs: map[string][]string{}, known: map[string]bool{}}
	list, err := exec.Command(tab.program, "help", "-list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, verb, _ := strings.Cut(strings.TrimSpace(line), " ")
		if verb == "" {
			tab.verbs[name] = nil
		} else {
			tab.verbs[name] = append(tab.verbs[name], verb)
		}
	}
	if len(tab.verbs) < 8 || len(tab.verbs["lease"]) < 4 {
		t.Fatalf("too few commands: %v", tab.verbs)
	}
	return tab
}

// has reports whether a subcommand (none: the daemon) knows a flag. The program's own parser says
// so: it stops at the first flag that it does not know, and one of those follows in any case.
func (tab *table) has(command []string, flag string) bool {
	flag, _, _ = strings.Cut(strings.TrimLeft(flag, "-"), "=")
	key := strings.Join(command, " ") + " -" + flag
	if _, ok := tab.known[key]; !ok {
		cmd := exec.Command(tab.program, append(slices.Clone(command), "-"+flag+"=?", "-no-such-flag")...)
		cmd.Env = []string{"HOME=/nonexistent"}
		out, err := cmd.CombinedOutput()
		if err == nil && flag != "help" && flag != "h" {
			tab.t.Errorf("%s -no-such-flag: exit code 0, and %s", key, out)
		}
		tab.known[key] = !strings.Contains(string(out), "not defined: -"+flag+"\n")
	}
	return tab.known[key]
}

// hasAnywhere reports whether the daemon or a subcommand knows a flag.
func (tab *table) hasAnywhere(flag string) bool {
	if tab.has(nil, flag) {
		return true
	}
	for name, verbs := range tab.verbs {
		if len(verbs) == 0 && tab.has([]string{name}, flag) {
			return true
		}
		for _, verb := range verbs {
			if tab.has([]string{name, verb}, flag) {
				return true
			}
		}
	}
	return false
}

var (
	flagWord = regexp.MustCompile(`^--?[a-z][a-z0-9-]*(=|$)`)
	verbWord = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// check says what is wrong with what follows our program's name.
func (tab *table) check(args []string) (problems []string) {
	var command []string
	if len(args) > 0 && verbWord.MatchString(args[0]) {
		verbs, ok := tab.verbs[args[0]]
		if !ok {
			return []string{"there is no katsubushi " + args[0]}
		}
		command = args[:1]
		if len(args) > 1 && verbWord.MatchString(args[1]) && len(verbs) > 0 {
			if !slices.Contains(verbs, args[1]) {
				return []string{"there is no katsubushi " + args[0] + " " + args[1]}
			}
			command = args[:2]
		}
	}
	for _, word := range args[len(command):] {
		if flagWord.MatchString(word) && !tab.has(command, word) {
			problems = append(problems, "katsubushi "+strings.Join(command, " ")+" has no "+word)
		}
	}
	return problems
}

// TestCommandLinesOfOurs: each line that runs our program names subcommands, verbs and flags that
// exist, whether a test runs it or not.
func TestCommandLinesOfOurs(t *testing.T) {
	tab := newTable(t)
	checked := 0
	for _, p := range append(manual(t), read(t, "CONTRIBUTING.md")...) {
		at := func(line int, text string) {
			for _, c := range words(text) {
				args, ok := ours(c)
				if !ok {
					continue
				}
				checked++
				for _, problem := range tab.check(args) {
					t.Errorf("%s:%d: %s", p.name, line, problem)
				}
			}
		}
		for _, b := range p.blocks {
			for _, c := range b.commands() {
				at(b.line, c.text)
			}
		}
		for _, line := range p.text {
			for _, span := range spans(line.text) {
				if strings.HasPrefix(span, "katsubushi ") {
					at(line.number, strings.NewReplacer("|", ",", "[", "", "]", "").Replace(span))
				}
			}
		}
	}
	t.Logf("%d command lines", checked)
	if checked < 50 {
		t.Errorf("only %d command lines were found", checked)
	}
	for _, wrong := range []string{"-worker-idd 1", "lease initt", "lease init -hwo new", "nosuch", "man -x"} {
		if len(tab.check(strings.Fields(wrong))) != 1 {
			t.Errorf("%s passes", wrong)
		}
	}
}

// notOurs are the names that a page marks as those of other programs: <!-- not ours: -x some_name -->.
func (p *page) notOurs() (names []string) {
	for _, mark := range p.marks {
		if list, ok := strings.CutPrefix(mark, "not ours:"); ok {
			names = append(names, strings.Fields(list)...)
		}
	}
	return names
}

// TestFlagsInProse: each flag that stands in backticks exists.
func TestFlagsInProse(t *testing.T) {
	tab := newTable(t)
	checked := 0
	for _, p := range manual(t) {
		foreign := p.notOurs()
		for _, line := range p.text {
			for _, span := range spans(line.text) {
				if !flagWord.MatchString(strings.Fields(span + " -")[0]) {
					continue
				}
				for _, word := range strings.Fields(span) {
					word, _, _ = strings.Cut(word, "=")
					if !flagWord.MatchString(word) || slices.Contains(foreign, word) {
						continue
					}
					checked++
					if !tab.hasAnywhere(word) {
						t.Errorf("%s:%d: there is no %s", p.name, line.number, word)
					}
				}
			}
		}
	}
	t.Logf("%d flags", checked)
	if checked < 150 {
		t.Errorf("only %d flags were found", checked)
	}
	if tab.hasAnywhere("-worker-idd") {
		t.Error("-worker-idd passes")
	}
}

// literals are the texts in quotes of everything that the program is made of, without the
// underscores around them, and the words of what stands beside it in deploy.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	add := func(word string) { all[strings.Trim(word, "_")] = true }
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, file)
		if d.IsDir() && slices.Contains([]string{"test", "bench", "docs", "examples", "bin", "tmp", ".git"}, name) {
			return filepath.SkipDir
		}
		if d.IsDir() || strings.HasSuffix(name, "_test.go") ||
			!slices.Contains([]string{".go", ".proto", ".yaml", ".yml", ".sql"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if filepath.Ext(name) != ".go" {
			for _, word := range strings.FieldsFunc(string(text), func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
			}) {
				add(word)
			}
			return err
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(text)), text, nil, 0)
		for {
			_, kind, literal := s.Scan()
			if kind == token.EOF {
				return err
			}
			if kind == token.STRING {
				for _, word := range identifiers.FindAllString(literal, -1) {
					add(word)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	snake       = regexp.MustCompile(`^[a-z][a-z0-9]*(?:_[a-z0-9]+)+(\{.*)?$`)
	identifiers = regexp.MustCompile(`[A-Za-z0-9_]+`)
	collectors  = regexp.MustCompile(`^(go|process)_`) // metrics of Prometheus's library
	counted     = regexp.MustCompile(`^([0-9]+|total|seconds|ms|bytes|info|bucket|count|sum)$`)
)

// composed reports whether a name is one of those known, or put together from such.
func composed(name string, known map[string]bool) bool {
	if known[name] || counted.MatchString(name) {
		return true
	}
	for i, c := range name {
		if c == '_' && composed(name[:i], known) && composed(name[i+1:], known) {
			return true
		}
	}
	return false
}

// TestNamesInProse: each metric, statistic and field in backticks is one that the program's source
// has, or is put together from texts that it has. A typing error is not.
func TestNamesInProse(t *testing.T) {
	known := literals(t)
	checked := 0
	for _, p := range manual(t) {
		foreign := p.notOurs()
		for _, line := range p.text {
			for _, span := range spans(line.text) {
				name, _, _ := strings.Cut(span, "{")
				if !snake.MatchString(span) || slices.Contains(foreign, name) || collectors.MatchString(name) {
					continue
				}
				if checked++; !composed(strings.TrimPrefix(name, "katsubushi_"), known) {
					t.Errorf("%s:%d: nothing of ours is called %s", p.name, line.number, name)
				}
			}
		}
	}
	t.Logf("%d names", checked)
	if checked < 100 {
		t.Errorf("only %d names were found", checked)
	}
	for _, wrong := range []string{"ids_isued_total", "curr_conections", "lease_redis_adr"} {
		if composed(wrong, known) {
			t.Errorf("%s passes", wrong)
		}
	}
}
