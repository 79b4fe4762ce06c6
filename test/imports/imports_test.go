package imports

import (
	_ "embed"
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/katsubushi/katsubushi/v3/"

// A rule says what a package may import of ours, which packages of ours may import it, or which names it may export
// that nothing uses. Patterns are path.Match's.
type rule struct {
	from, reason string
	may          []string
}

// rules, exclusive and doors are the sections of rules.txt.
var rules, exclusive, doors = section("rules"), section("exclusive"), section("doors")

//go:embed rules.txt
var text string

func section(name string) (list []rule) {
	_, after, _ := strings.Cut(text, "\n== "+name+"\n")
	after, _, _ = strings.Cut(after, "\n== ")
	for line := range strings.Lines(after) {
		more, ok := strings.CutPrefix(line, "\t")
		if from, reason, found := strings.Cut(strings.TrimSpace(line), ": "); ok {
			last := &list[len(list)-1]
			last.may = append(last.may, strings.Fields(more)...)
		} else if found && line[0] != '#' {
			list = append(list, rule{from: from, reason: reason})
		}
	}
	return list
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func ours(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok || strings.HasSuffix(p, "/*") && strings.HasPrefix(name, strings.TrimSuffix(p, "*"))
	})
}

func TestImportsGoDownOnly(t *testing.T) {
	list := ours(t)
	if len(list) < 8 {
		t.Fatalf("go list found %d packages", len(list))
	}
	used := map[string]bool{} // patterns by the rules that they stand in
	applies := func(r rule, name string) bool {
		ok := matches([]string{r.from}, name)
		used[r.from] = used[r.from] || ok
		return ok
	}
	permits := func(r rule, name string) bool {
		i := slices.IndexFunc(r.may, func(p string) bool { return matches([]string{p}, name) })
		if i >= 0 {
			used[r.from+" "+r.may[i]] = true
		}
		return i >= 0
	}
	for _, p := range list {
		name := path.Clean(strings.TrimPrefix(p.ImportPath+"/", module)) // "." is the library
		i := slices.IndexFunc(rules, func(r rule) bool { return applies(r, name) })
		if i < 0 {
			t.Errorf("%s: no rule of rules.txt says what it may import: add one, and draw it in docs/ARCHITECTURE.md", name)
			continue
		}
		for _, imp := range p.Imports {
			of, ok := strings.CutPrefix(imp+"/", module)
			if of = path.Clean(of); ok && !permits(rules[i], of) {
				t.Errorf("%s imports %s: %s", name, of, rules[i].reason)
			}
			for _, x := range exclusive {
				if applies(x, imp) && !permits(x, name) {
					t.Errorf("%s imports %s: %s", name, imp, x.reason)
				}
			}
		}
	}
	for _, r := range slices.Concat(rules, exclusive) {
		if runtime.GOOS != "linux" { // elsewhere less is imported
			break
		}
		if !used[r.from] {
			t.Errorf("a rule for %s, and no such package", r.from)
		}
		for _, p := range r.may {
			if !used[r.from+" "+p] {
				t.Errorf("the rule for %s says %s, which nothing needs", r.from, p)
			}
		}
	}
}

// TestClientImportsTheStandardLibraryAlone: a program that imports client compiles nothing else.
func TestClientImportsTheStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"client").
		Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != module+"client" {
		t.Errorf("error %v, packages outside of the standard library:\n%s", err, got)
	}
}

// TestWindowsLinkNoStore: a program that leases worker ids links the client of its own store alone.
func TestWindowsLinkNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		module+"internal/windows").Output()
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, module) && !strings.HasPrefix(name, "golang.org/x/sys/") {
			t.Errorf("internal/windows links %s", name)
		}
	}
	if err != nil || len(out) == 0 {
		t.Error(err)
	}
}

// TestNothingCallsMethodsByName: text/template calls methods by their names, so the linker keeps every
// method of a program that imports it. make build leaves out the one package that does.
func TestNothingCallsMethodsByName(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", module+"cmd/katsubushi").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if name == "text/template" {
			t.Errorf("the program imports %s, which makes it 9 MB larger", name)
		}
	}
}
