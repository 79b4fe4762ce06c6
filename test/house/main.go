// Command house measures the tree it is started in: how large the product and its tests are, and
// whether Go files keep to the rules of CONTRIBUTING.md that no linter knows.
//
//	go run ./test/house
//
// The sizes are for people. Tokens are go/scanner's, without comments and without the semicolons
// that line ends stand for, so a line break costs nothing. What breaks a rule is listed, and the
// exit code is 1:
//
//   - a line is at most 120 characters long, a tab counted as one; what lies in a raw string of
//     several lines is data and may be longer
//   - a line holds one statement, or the whole block of a short function
//   - a function of the product is at most 70 lines long and has a cyclomatic number of at most 20
//   - what packages of the product export has a comment
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns    = 120
	maxLines      = 70 // of a function
	maxCyclomatic = 20
)

// A file is what was found in one file.
type file struct {
	name   string
	tokens int
	broken []string // rules that it breaks, as file:line: what
	large  []string // functions that are longer or have more branches than they should
	silent []string // exported names without a comment
}

func main() {
	files, err := measure(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	if !report(os.Stdout, files) {
		os.Exit(1)
	}
}

// measure looks at the Go files below dir that git knows, but not at generated ones.
func measure(dir string) ([]file, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--", "*.go")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []file
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue // removed, and git has not been told
		}
		if err != nil {
			return nil, err
		}
		f, err := look(name, src)
		if err != nil {
			return nil, err
		}
		if f.tokens > 0 {
			files = append(files, f)
		}
	}
	return files, nil
}

// look measures one file. A generated one has no tokens.
func look(name string, src []byte) (file, error) {
	f := file{name: name}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	if ast.IsGenerated(tree) {
		return f, nil
	}
	var raw map[int]bool
	f.tokens, raw = count(src)
	for i, line := range strings.Split(string(src), "\n") {
		if n := utf8.RuneCountInString(line); n > maxColumns && !raw[i+1] {
			f.broken = append(f.broken, fmt.Sprintf("%s:%d: %d characters", name, i+1, n))
		}
	}
	f.statements(fset, tree)
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.function(fset, d)
			f.commented(fset, d.Name, d.Doc != nil || inherits(d))
		case *ast.GenDecl:
			f.group(fset, d)
		}
	}
	if !product(name) || tree.Name.Name == "main" {
		f.silent = nil
	}
	return f, nil
}

// count returns how many tokens src has, and the lines, from 1, that belong to raw strings of more than one.
func count(src []byte) (tokens int, raw map[int]bool) {
	fset := token.NewFileSet()
	pos := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(pos, src, nil, 0)
	raw = make(map[int]bool)
	for {
		p, t, text := s.Scan()
		if t == token.EOF {
			return tokens, raw
		}
		if t == token.SEMICOLON && text == "\n" {
			continue
		}
		tokens++
		if first, more := fset.Position(p).Line, strings.Count(text, "\n"); t == token.STRING && more > 0 {
			for i := range more + 1 {
				raw[first+i] = true
			}
		}
	}
}

// statements notes the lines on which a statement follows another one.
func (f *file) statements(fset *token.FileSet, tree *ast.File) {
	ast.Inspect(tree, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for i := 1; i < len(list); i++ {
			if at := fset.Position(list[i].Pos()).Line; at == fset.Position(list[i-1].End()).Line {
				f.broken = append(f.broken, fmt.Sprintf("%s:%d: several statements", f.name, at))
			}
		}
		return true
	})
}

// inherits reports whether the comment of a method is that of an interface or a type: the one whose method it is not
// exported, or every Go programmer knows what the method does.
func inherits(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	id, ok := of.(*ast.Ident)
	return ok && !id.IsExported() || slices.Contains(strings.Fields("Error Unwrap String Read Write Len Less Swap "+
		"Is MarshalJSON UnmarshalJSON MarshalText UnmarshalText ServeHTTP"), fn.Name.Name)
}

// group looks for comments of types, constants and variables. One above a group is for all that it has.
func (f *file) group(fset *token.FileSet, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			f.commented(fset, spec.Name, spec.Doc != nil || d.Doc != nil && !d.Lparen.IsValid())
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				f.commented(fset, name, spec.Doc != nil || spec.Comment != nil || d.Doc != nil)
			}
		}
	}
}

// commented notes an exported name without a comment.
func (f *file) commented(fset *token.FileSet, name *ast.Ident, has bool) {
	if name.IsExported() && !has {
		line := fset.Position(name.Pos()).Line
		f.silent = append(f.silent, fmt.Sprintf("%s:%d: %s has no comment", f.name, line, name.Name))
	}
}

// function notes fn if it is too long or has too many branches.
func (f *file) function(fset *token.FileSet, fn *ast.FuncDecl) {
	if fn.Body == nil {
		return
	}
	first := fset.Position(fn.Pos()).Line
	lines := fset.Position(fn.End()).Line - first + 1
	branches := cyclomatic(fn)
	if lines > maxLines || branches > maxCyclomatic {
		f.large = append(f.large,
			fmt.Sprintf("%s:%d: %s: %d lines, cyclomatic %d", f.name, first, fn.Name.Name, lines, branches))
	}
}

// cyclomatic is McCabe's number of fn: one more than its branches. Literals of functions count in.
func cyclomatic(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// product tells whether a file is part of the product, and not a test, a tool, a benchmark or an example.
func product(name string) bool {
	if strings.HasSuffix(name, "_test.go") {
		return false
	}
	top, _, _ := strings.Cut(name, "/")
	return top != "test" && top != "bench" && top != "examples"
}

// report prints the table, and what breaks a rule, and tells whether nothing does.
func report(w io.Writer, files []file) bool {
	var sizes [2]int // product, others
	rooms := make(map[string]int)
	var broken, large, silent []string
	for _, f := range files {
		if !product(f.name) {
			sizes[1] += f.tokens
		} else {
			sizes[0] += f.tokens
			rooms[room(f.name)] += f.tokens
			large = append(large, f.large...)
			silent = append(silent, f.silent...)
		}
		broken = append(broken, f.broken...)
	}
	fmt.Fprintf(w, "%8d tokens of the product\n%8d of tests and tools\n", sizes[0], sizes[1])
	names := make([]string, 0, len(rooms))
	for name := range rooms {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		return rooms[names[i]] > rooms[names[j]] || rooms[names[i]] == rooms[names[j]] && names[i] < names[j]
	})
	for _, name := range names[:min(len(names), 12)] {
		fmt.Fprintf(w, "%8d   %s\n", rooms[name], name)
	}
	fmt.Fprintf(w, "%8d functions of the product have over %d lines, or a cyclomatic number over %d\n", len(large),
		maxLines, maxCyclomatic)
	for _, l := range large {
		fmt.Fprintf(w, "%8s   %s\n", "", l)
	}
	fmt.Fprintf(w, "%8d exported names of the product have no comment\n", len(silent))
	fmt.Fprintf(w, "%8d lines break a rule\n", len(broken))
	broken = append(silent, broken...)
	for _, l := range broken {
		fmt.Fprintln(w, l)
	}
	return len(broken)+len(large) == 0
}

// room is the folder that a file of the product is counted with: two names deep below internal, else one.
func room(name string) string {
	dir := filepath.ToSlash(filepath.Dir(name))
	parts := strings.Split(dir, "/")
	if parts[0] == "internal" {
		return strings.Join(parts[:min(len(parts), 2)], "/")
	}
	return parts[0]
}
