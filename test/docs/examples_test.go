package docs

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withExamples are the packages that a program imports to make ids itself, and which of their names need an example;
// nil = all.
var withExamples = map[string][]string{
	".": nil, "collector": nil, "katsubushitest": nil,
	"workerid/redis": {"Leased"}, "workerid/etcd": {"Leased"}, "workerid/zookeeper": {"Leased"},
	"workerid/static": {"Dir"},
}

// TestExamples: functions, methods and types have an example each, and constants and variables occur in one.
func TestExamples(t *testing.T) {
	for dir, only := range withExamples {
		p, used := examples(t, filepath.Join("../..", dir))
		var exported []string // as in the names of examples
		var values []string   // constants and variables
		add := func(funcs []*doc.Func, of string) {
			for _, f := range funcs {
				exported = append(exported, of+f.Name)
			}
		}
		for _, v := range slices.Concat(p.Consts, p.Vars) {
			values = append(values, v.Names...)
		}
		add(p.Funcs, "")
		for _, typ := range p.Types {
			exported = append(exported, typ.Name)
			add(typ.Funcs, "")
			add(typ.Methods, typ.Name+"_")
			for _, v := range slices.Concat(typ.Consts, typ.Vars) {
				values = append(values, v.Names...)
			}
		}
		if exported = slices.Concat(exported, values); len(exported) == 0 {
			t.Errorf("%s: nothing is exported", dir)
		}
		for _, name := range exported {
			_, there := used["Example"+name]
			if slices.Contains(values, name) {
				there = slices.ContainsFunc(slices.Collect(maps.Values(used)), func(u map[string]bool) bool { return u[name] })
			}
			if !there && ast.IsExported(name) && (only == nil || slices.Contains(only, name)) && name != "IDs_Figures" {
				t.Errorf("%s: %s has no example", dir, name) // Figures takes a function of an internal type
			}
		}
	}
}

// examples reads a package, and which names each of its examples uses.
func examples(t *testing.T, dir string) (p *doc.Package, used map[string]map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var all, product []*ast.File
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(set, f, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, parsed); !strings.HasSuffix(f, "_test.go") {
			product = append(product, parsed)
		}
	}
	if p, err = doc.NewFromFiles(set, product, dir); err != nil {
		t.Fatal(err)
	}
	used = map[string]map[string]bool{}
	for _, e := range doc.Examples(all...) {
		names := map[string]bool{}
		ast.Inspect(e.Code, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				names[s.Sel.Name] = true
			}
			return true
		})
		used["Example"+e.Name] = names
	}
	return p, used
}
