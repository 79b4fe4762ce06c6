package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/test/section"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// TestTexts compares everything that the program says of itself with the files of testdata: help, the manual page,
// completion, and the answers to wrong words. With -update it writes the files.
func TestTexts(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // commands look for records there
	files := map[string][]string{
		"help": {"-h all"}, "man": {"man"}, "completion.bash": {"completion bash"},
		"completion.zsh": {"completion zsh"}, "completion.fish": {"completion fish"},
	}
	for _, c := range commands() {
		files["commands"] = append(files["commands"], c.name+" -h", c.name+" --help")
		for _, verb := range names(c.verbs) {
			if c.name == "completion" {
				continue
			}
			files["commands"] = append(files["commands"], c.name+" "+verb+" -h")
			files["wrong"] = append(files["wrong"], c.name+" "+verb+" -state-dir none -nosuchflag=1 a b")
		}
		if len(c.verbs) > 0 {
			files["wrong"] = append(files["wrong"], c.name+" -state-dir none",
				c.name+" nosuchword -state-dir none", c.name+" nosuchword -json -force -state-dir none")
		}
	}
	files["commands"] = append(files["commands"], "help", "help -list", "help lease", "help lease list")
	for name, list := range files {
		var b bytes.Buffer
		before := ""
		for _, args := range list {
			var stdout, stderr bytes.Buffer
			code := run(strings.Fields(args), variables{}, &stdout, &stderr)
			if len(list) > 1 {
				fmt.Fprintf(&b, "\n$ katsubushi %s\n", args)
			}
			if got := ofHost(stdout.String()); got != "" && got == before {
				b.WriteString("as before\n")
			} else {
				b.WriteString(got)
				before = got
			}
			if said := ofHost(stderr.String()); said != "" || code != exitOK {
				fmt.Fprintf(&b, "stderr:\n%sexit code %d\n", said, code)
			}
		}
		compare(t, filepath.Join("testdata", name), b.String())
	}
}

// compare compares a text with a file, or with -update writes it.
func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs: run the test with -update and read the difference\n%s",
			path, firstDifference(got, string(want)))
	}
}

// TestFlagsInTheDocs compares the tables of docs/FLAGS.md with the program's. With -update it writes them.
func TestFlagsInTheDocs(t *testing.T) {
	var b strings.Builder
	words, sets := flagWords(), byTopic(newFlags())
	for _, topic := range topics {
		fmt.Fprintf(&b, "\n### %s\n\n| flag | default | |\n|---|---|---|\n", topic)
		sets[topic].VisitAll(func(f *flag.Flag) {
			value, help := flag.UnquoteUsage(f)
			value = strings.TrimRight(" "+value, " ")
			if choice := words["-"+f.Name]; choice != nil {
				value = "=" + strings.Join(choice, ",")
			}
			help, _, _ = strings.Cut(help, " [KATSUBUSHI_")
			def := f.DefValue
			if slices.Contains([]string{"loops", "max-connections", "max-buffer-memory"}, f.Name) || def == "false" {
				def = "" // it is another on another host, or says nothing
			}
			fmt.Fprintf(&b, "| `-%s%s` | %s | %s |\n", f.Name, value, def, markdown.Replace(help))
		})
	}
	section.Check(t, "../../docs/FLAGS.md", "flags", b.String(), *update)
}

var markdown = strings.NewReplacer("|", "\\|", "[", "\\[", "*", "\\*", "<", "\\<")

var hostsOwn = regexp.MustCompile(`\(default (\d+|` + regexp.QuoteMeta(sizeText(front.DefaultBufferMemory())) + `)\)`)

// ofHost replaces the defaults that are another machine's on another machine.
func ofHost(text string) string {
	own := map[string]bool{sizeText(front.DefaultBufferMemory()): true}
	for _, s := range clientSettings(new(options)) {
		if s.name == "loops" || s.name == "max-connections" {
			own[s.def] = true
		}
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		host := strings.Contains(line, "KATSUBUSHI_LOOPS") || strings.Contains(line, "KATSUBUSHI_MAX_CONNECTIONS") ||
			strings.Contains(line, "KATSUBUSHI_MAX_BUFFER_MEMORY")
		if host {
			lines[i] = hostsOwn.ReplaceAllStringFunc(line, func(m string) string {
				if own[m[len("(default "):len(m)-1]] {
					return "(default <host>)"
				}
				return m
			})
		}
	}
	return strings.Join(lines, "\n")
}

// firstDifference returns the first line that differs.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + strconv.Itoa(i+1) + "\ngot  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}
