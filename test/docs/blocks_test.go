package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A command is one that a block shows, with what it prints if that is shown.
type command struct {
	text  string // may have several lines
	shown []string
}

// programs begin a line of a block that names no language, if the block is of commands.
var programs = regexp.MustCompile(
	`^(\$ |(sudo |[A-Z_]+=\S+ )?(\./)?(katsubushi|apt|apt-get|chronyc|cosign|curl|docker|dpkg|etcd|etcdctl|go|grpcurl|` +
		`helm|install|journalctl|kubectl|make|mkdir|nc|podman|printf|promtool|psql|redis-cli|redis-server|rpm|ssh|` +
		`systemctl|tar|timedatectl|zkCli\.sh) )`)

// kind is sh, console, or another language; none if the block is just text.
func (b *block) kind() string {
	switch b.language {
	case "":
		if len(b.lines) == 0 || !programs.MatchString(b.lines[0]) {
			return "text"
		}
		if strings.HasPrefix(b.lines[0], "$ ") {
			return "console"
		}
		return "sh"
	case "bash", "shell":
		return "sh"
	case "shell-session":
		return "console"
	case "yml":
		return "yaml"
	case "ini", "systemd":
		return "unit"
	}
	return b.language
}

// mark returns what a comment before the block says after a word.
func (b *block) mark(word string) (string, bool) {
	for _, mark := range b.marks {
		if mark == word {
			return "", true
		}
		if rest, ok := strings.CutPrefix(mark, word+":"); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page.name, b.line) }

// commands are those that a block of commands has.
func (b *block) commands() (list []command) {
	kind := b.kind()
	if kind != "sh" && kind != "console" {
		return nil
	}
	for i := 0; i < len(b.lines); {
		line := b.lines[i]
		i++
		if kind == "console" {
			rest, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				if len(list) > 0 {
					last := &list[len(list)-1]
					last.shown = append(last.shown, line)
				}
				continue
			}
			line = rest
		}
		for unfinished(line) && i < len(b.lines) {
			line += "\n" + strings.TrimPrefix(b.lines[i], "> ")
			i++
		}
		if text := strings.TrimSpace(line); text != "" && (strings.Contains(text, "\n") || !strings.HasPrefix(text, "#")) {
			list = append(list, command{text: line})
		}
	}
	return list
}

var heredoc = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)

// unfinished reports whether a command goes on in the next line. bash knows best, but is asked only
// where it may.
func unfinished(text string) bool {
	if strings.HasSuffix(text, `\`) {
		return true
	}
	if m := heredoc.FindStringSubmatch(strings.ReplaceAll(text, "<<<", "")); m != nil {
		return !slices.Contains(strings.Split(text, "\n")[1:], m[1])
	}
	if !strings.ContainsAny(text, `'"{(`) &&
		!regexp.MustCompile(`^\s*(for|while|until|if|case) |\|$|&&$`).MatchString(text) {
		return false
	}
	bash := exec.Command("bash", "-n")
	bash.Stdin = strings.NewReader(text)
	var said bytes.Buffer
	bash.Stderr = &said
	return bash.Run() != nil && regexp.MustCompile(`unexpected (end of file|EOF)`).Match(said.Bytes())
}

// TestBlocksOfData: what stands in blocks of other languages can be read as such. A comment `not
// run: REASON` lets a block be what it likes, `run by: TEST` names the test that runs it.
func TestBlocksOfData(t *testing.T) {
	tests := testNames(t)
	n := map[string]int{}
	for _, p := range append(manual(t), read(t, "CONTRIBUTING.md")...) {
		for _, b := range p.blocks {
			for name := range strings.FieldsSeq(strings.ReplaceAll(first(b.mark("run by")), ",", " ")) {
				if !tests[name] {
					t.Errorf("%s: there is no test %s", b, name)
				}
			}
			if reason, ok := b.mark("not run"); ok && len(strings.Fields(reason)) < 2 {
				t.Errorf("%s: why is it not run?", b)
			} else if ok {
				continue
			}
			n[b.kind()]++
			if err := b.parses(); err != nil {
				t.Errorf("%s: %v", b, err)
			}
		}
	}
	t.Log(n)
}

func first[A, B any](a A, _ B) A { return a }

// testNames are all tests of the tree, and the targets of make.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range function.FindAllSubmatch(text, -1) {
			all[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parses says why a block is not of its language.
func (b *block) parses() error {
	text := strings.Join(b.lines, "\n") + "\n"
	switch b.kind() {
	case "json":
		for d := json.NewDecoder(strings.NewReader(text)); ; {
			var v any
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	case "yaml":
		for d := yaml.NewDecoder(strings.NewReader(text)); ; {
			var v any
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	case "unit":
		return unit(text)
	case "go":
		return goCode(text)
	case "sql", "mysql", "postgresql":
		return b.sql()
	case "sh", "console":
		if len(b.commands()) == 0 {
			return errors.New("it has no commands")
		}
		for _, c := range b.commands() {
			bash := exec.Command("bash", "-n")
			bash.Stdin = strings.NewReader(c.text)
			if out, err := bash.CombinedOutput(); err != nil || len(out) > 0 {
				return fmt.Errorf("%s: %s", c.text, out)
			}
		}
	case "text":
		if i := slices.IndexFunc(b.lines, programs.MatchString); i >= 0 && b.language == "" {
			return fmt.Errorf("line %d may be a command: give the block its language, sh, console or text", i+1)
		}
	case "python", "ruby", "php", "js", "java", "dockerfile", "promql", "nginx", "haproxy", "caddy", "proto", "toml",
		"conf", "mermaid", "diff", "elixir", "rust", "csharp":
	default:
		return fmt.Errorf("language %q is not known; text is always right", b.language)
	}
	return nil
}

// unit reads a unit of systemd's, or another file of sections and settings.
func unit(text string) error {
	section := false
	for i, line := range strings.Split(strings.ReplaceAll(text, "\\\n", ""), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = true
		case !section:
			return fmt.Errorf("line %d is in no section: %s", i+1, line)
		case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*\s*=`).MatchString(line):
			return fmt.Errorf("line %d is no setting: %s", i+1, line)
		}
	}
	return nil
}

// goCode reads a file of Go, or what may stand in a function. A line of dots stands for something left out.
func goCode(text string) error {
	text = regexp.MustCompile(`(?m)^\s*(\.\.\.|…)$`).ReplaceAllString(text, "")
	if !strings.Contains(text, "package ") {
		text = "package p\nfunc f() error {\n" + text + "}\n"
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	return err
}

// sql is for a server to judge: TestCommands runs blocks of sql with a server, and other tests run the rest.
func (b *block) sql() error {
	if _, ok := b.mark("run by"); ok {
		return nil
	}
	if with, ok := b.mark("with"); ok && regexp.MustCompile(`\b(postgres|mariadb)\b`).MatchString(with) {
		return nil
	}
	if _, ok := b.mark("goes on"); ok {
		return nil
	}
	return errors.New("no comment before it says which test runs it (run by: TestX), or with which server (with: " +
		"postgres, with: mariadb)")
}

func TestCommandsOfABlock(t *testing.T) {
	b := parse("a.md", "```\n$ a \\\n>   b\nout\n$ cat <<END\n> x\n> END\nx\n\n$ for i in 1; do\n> echo; "+
		"done\n```\n```sh\n# comment\na 'b\nc' # d\ne <<< f\nf() {\n  g\n}\n```").blocks
	var got []string
	for _, c := range append(b[0].commands(), b[1].commands()...) {
		got = append(got, c.text+"="+strings.Join(c.shown, "/"))
	}
	want := []string{"a \\\n  b=out", "cat <<END\nx\nEND=x/", "for i in 1; do\necho; done=", "a 'b\nc' # d=", "e <<< f=",
		"f() {\n  g\n}="}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestDataThatIsWrong(t *testing.T) {
	for _, text := range []string{
		"```json\n{\"a\":1,}\n```", "```yaml\na: [\n```", "```ini\na=1\n```", "```unit\n[Service]\nExecStart\n```",
		"```go\nx := \n```", "```sql\nSELECT 1;\n```",
		"```sh\n# nothing\n```", "```\nfirst:\nkatsubushi -worker-id 1\n```", "```sh\necho 'a\n```", "```klingon\n```",
	} {
		if err := parse("a.md", text).blocks[0].parses(); err == nil {
			t.Errorf("%s passes", text)
		}
	}
	for _, text := range []string{
		"```json\n{\"a\":1}\n{}\n```", "```yaml\na: [1]\n---\nb: 2\n```", "```ini\n[a]\nb=1\n```",
		"```go\nx := 1\n...\n_ = x\n```", "<!-- with: postgres -->\n```sql\nSELECT 1;\n```",
	} {
		if err := parse("a.md", text).blocks[0].parses(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
