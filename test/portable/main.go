// Command portable type-checks all packages of this module and their tests as other systems would
// compile them; each argument is a GOOS/GOARCH. It finds what a build would find, except what only
// the linker knows.
//
// `GOOS=... go vet ./...` would do as well, but with an empty build cache it first compiles the
// standard library and all dependencies for that system: 100 s of CPU time and 300 MB of cache for
// each, so more than two minutes of `make test` on two cores. This command needs 5 s for all three.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	var all sync.WaitGroup
	failures := make([]error, len(os.Args))
	for i, target := range os.Args[1:] {
		all.Go(func() {
			if err := check(target); err != nil {
				failures[i] = fmt.Errorf("for %s:\n%w", target, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A listed package is what go list says of it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // what is written there to what is meant: vendored, or a variant for a test
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check checks the packages in go list's order: who is imported comes first.
func check(target string) error {
	system, arch, _ := strings.Cut(target, "/")
	list := exec.Command("go", "list", "-e", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error",
		"./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	c := checker{types.SizesFor("gc", arch), token.NewFileSet(), map[string]*types.Package{"unsafe": types.Unsafe}}
	var wrong []error
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if p.Error != nil {
			wrong = append(wrong, errors.New(p.Error.Err))
		} else if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") {
			// a main package that go test writes
			wrong = append(wrong, c.check(p)...)
		}
	}
	return errors.Join(append(wrong, list.Wait())...)
}

type checker struct {
	sizes types.Sizes
	files *token.FileSet
	done  map[string]*types.Package
}

// check looks into the functions of our own packages only.
func (c *checker) check(p listed) (wrong []error) {
	ours := p.Module != nil && p.Module.Main
	conf := types.Config{Sizes: c.sizes, IgnoreFuncBodies: !ours, Importer: importer{c, p.ImportMap},
		Error: func(err error) {
			if ours {
				wrong = append(wrong, err)
			}
		}}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, f)
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // "a [a.test]"
	c.done[p.ImportPath], _ = conf.Check(path, c.files, files, nil)
	return wrong
}

type importer struct {
	*checker
	meant map[string]string
}

// Import implements types.Importer.
func (i importer) Import(path string) (*types.Package, error) {
	if m, ok := i.meant[path]; ok {
		path = m
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not checked", path)
}
