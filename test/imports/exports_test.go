package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// door returns which of the names of doors lets a name out, as "PACKAGE NAME", or "".
func door(from, name string) string {
	for _, d := range doors {
		for _, pattern := range d.may {
			if ok, _ := path.Match(pattern, name); ok && d.from == from {
				return from + " " + pattern
			}
		}
	}
	return ""
}

// closed are the directories that other modules cannot import, or do not.
var closed = regexp.MustCompile(`^(internal|test|cmd|bench|examples|docs-site)(/|$)|/internal/`)

// A shelf is the names that a package exports, with where each stands.
type shelf struct {
	at    map[string]token.Pos
	needs map[string]bool // mentioned by what else is exported, so it must be too
}

// notOurs are directories without packages of this module; make proto-check fills bin meanwhile.
var notOurs = []string{"testdata", "node_modules", "bin", ".git"}

// TestExportsAreUsed: a name that a public package exports is used by another package, in more than tests.
func TestExportsAreUsed(t *testing.T) {
	root, fset := filepath.Join("..", ".."), token.NewFileSet()
	shelves, used := map[string]shelf{}, map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains(notOurs, d.Name()) {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		short, _ := filepath.Rel(root, filepath.Dir(name))
		dir := filepath.ToSlash(short)
		if public := !closed.MatchString(dir) && f.Name.Name != "main"; public {
			if shelves[dir].at == nil {
				shelves[dir] = shelf{map[string]token.Pos{}, map[string]bool{}}
			}
			shelves[dir].put(f)
		}
		if !strings.HasPrefix(dir, "test/") {
			markUses(f, used)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(shelves) < 20 || len(used) < 200 {
		t.Fatalf("%d packages with exports, of which %d are used", len(shelves), len(used))
	}
	opened := map[string]bool{}
	for dir, s := range shelves {
		for name, pos := range s.at {
			if used[dir+"."+name] || s.needs[name] {
				continue
			}
			by := door(dir, name)
			if opened[by] = true; by == "" {
				t.Errorf("%s: nothing but the package and tests uses %s.%s: unexport it, or give a reason in rules.txt",
					fset.Position(pos), dir, name)
			}
		}
	}
	for _, d := range doors {
		for _, name := range d.may {
			if name != "*" && !opened[d.from+" "+name] {
				t.Errorf("rules.txt has %s of %s, which is used, or is gone", name, d.from)
			}
		}
	}
}

// put adds what a file exports. Methods and fields belong to their types.
func (s shelf) put(f *ast.File) {
	need := func(n ast.Node, but string) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				return len(n.Names) == 0 || slices.ContainsFunc(n.Names, func(i *ast.Ident) bool { return i.IsExported() }) ||
					but == "" // parameters
			case *ast.Ident:
				if n.Name != but {
					s.needs[n.Name] = true
				}
			}
			return true
		})
	}
	add := func(i *ast.Ident) {
		if i.IsExported() {
			s.at[i.Name] = i.Pos()
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				need(d.Type, "")
			}
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if add(spec.Name); spec.Name.IsExported() {
						need(spec.Type, spec.Name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name)
					}
					if spec.Type != nil && spec.Names[0].IsExported() {
						need(spec.Type, "")
					}
				}
			}
		}
	}
}

// markUses adds "PACKAGE.Name" for each name of another package of ours that a file uses.
func markUses(f *ast.File, used map[string]bool) {
	packages := map[string]string{}
	for _, imp := range f.Imports {
		text, _ := strconv.Unquote(imp.Path.Value)
		of, ok := strings.CutPrefix(text+"/", module)
		if of = path.Clean(of); !ok {
			continue
		}
		name := path.Base(of)
		if of == "." {
			name = "katsubushi"
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		packages[name] = of
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && packages[x.Name] != "" {
				used[packages[x.Name]+"."+sel.Sel.Name] = true
			}
		}
		return true
	})
}
