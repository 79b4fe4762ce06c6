package docs

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
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

// A table knows the subcommands and their verbs as the program itself does.
type table struct {
	t       *testing.T
	program string
	verbs   map[string][]string // of each subcommand
}

func newTable(t *testing.T) *table {
	tab := &table{t: t, program: daemonrun.Program(t), verbs: map[string][]string{}}
	for line := range strings.Lines(tab.prints("help", "-list")) {
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

func (tab *table) prints(args ...string) string {
	out, err := exec.Command(tab.program, args...).Output()
	if err != nil {
		tab.t.Fatal(err)
	}
	return string(out)
}

// unknown returns the flags that a subcommand (none: the daemon) does not know. The program's own parser says so: it
// stops at the first flag that it does not know, and one of those follows in any case.
func (tab *table) unknown(command, flags []string) (names []string) {
	const last = "no-such-flag"
	for {
		args := slices.Clone(command)
		for _, flag := range flags {
			args = append(args, "-"+flag+"=?")
		}
		cmd := exec.Command(tab.program, append(args, "-"+last)...)
		cmd.Env = []string{"HOME=/nonexistent"}
		out, err := cmd.CombinedOutput()
		_, name, _ := strings.Cut(string(out), "not defined: -")
		name, _, _ = strings.Cut(name, "\n")
		if err == nil || name != last && !slices.Contains(flags, name) {
			tab.t.Fatalf("%q: %v, and %s", args, err, out)
		}
		if name == last {
			return names
		}
		names = append(names, name)
		flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return flag == name })
	}
}

var (
	flagWord = regexp.MustCompile(`^--?[a-z][a-z0-9-]*(=|$)`)
	verbWord = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// flagName is the name in a word that is a flag.
func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// parts takes what follows our program's name apart, and says what is wrong with its first words. Every subcommand
// knows -help and -h, which are left out.
func (tab *table) parts(args []string) (command, flags []string, problem string) {
	if len(args) > 0 && verbWord.MatchString(args[0]) {
		verbs, ok := tab.verbs[args[0]]
		if !ok {
			return nil, nil, "there is no katsubushi " + args[0]
		}
		command = args[:1]
		if len(args) > 1 && verbWord.MatchString(args[1]) && len(verbs) > 0 {
			if !slices.Contains(verbs, args[1]) {
				return nil, nil, "there is no katsubushi " + args[0] + " " + args[1]
			}
			command = args[:2]
		}
	}
	for _, word := range args[len(command):] {
		if name := flagName(word); flagWord.MatchString(word) && name != "help" && name != "h" {
			flags = append(flags, name)
		}
	}
	return command, flags, ""
}

// TestCommandLinesOfOurs: each line that runs our program names subcommands, verbs and flags that
// exist, whether a test runs it or not.
func TestCommandLinesOfOurs(t *testing.T) {
	tab := newTable(t)
	checked := 0
	used := map[string]map[string]string{} // where, by command and flag
	for _, p := range append(manual(t), read(t, "CONTRIBUTING.md")...) {
		at := func(line int, text string) {
			for _, c := range words(text) {
				args, ok := ours(c)
				if !ok {
					continue
				}
				checked++
				where := fmt.Sprintf("%s:%d", p.name, line)
				command, flags, problem := tab.parts(args)
				if problem != "" {
					t.Errorf("%s: %s", where, problem)
				}
				key := strings.Join(command, " ")
				if used[key] == nil {
					used[key] = map[string]string{}
				}
				for _, flag := range flags {
					used[key][flag] += " " + where
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
	for command, flags := range used {
		for _, flag := range tab.unknown(strings.Fields(command), slices.Sorted(maps.Keys(flags))) {
			t.Errorf("katsubushi %s has no -%s:%s", command, flag, flags[flag])
		}
	}
	t.Logf("%d command lines", checked)
	if checked < 50 {
		t.Errorf("only %d command lines were found", checked)
	}
	for _, wrong := range []string{"-worker-idd 1", "lease initt", "lease init -hwo new", "nosuch", "man -x"} {
		command, flags, problem := tab.parts(strings.Fields(wrong))
		if problem == "" && len(tab.unknown(command, flags)) == 0 {
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
	known := map[string]bool{"-help": true, "-h": true}
	// What the shell offers is every flag of the daemon and of each subcommand.
	for _, word := range strings.FieldsFunc(newTable(t).prints("completion", "bash"), func(c rune) bool {
		return strings.ContainsRune(" \n'", c)
	}) {
		if strings.HasPrefix(word, "-") {
			known[word] = true
		}
	}
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
					if !known["-"+flagName(word)] {
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
	if known["-worker-idd"] || !known["-worker-id"] {
		t.Error("-worker-idd passes, or -worker-id does not")
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
