package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted     = regexp.MustCompile("`([^` ]+)`")
	within     = regexp.MustCompile("`([^` ]+)` in `([^` ]+\\.go)`")
	identifier = regexp.MustCompile(`^\(?\*?[A-Za-z]\w*\)?(\.\w+)?$`)
	definition = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t+|package )(\w+)`)
)

// goFiles returns the code of each Go file that is no test, by its path and by its name alone; and by
// "" that of all.
func goFiles(t *testing.T) map[string]string {
	all := map[string]*strings.Builder{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		short, _ := filepath.Rel(root, path)
		for _, name := range []string{filepath.ToSlash(short), filepath.Base(path), ""} {
			if all[name] == nil {
				all[name] = new(strings.Builder)
			}
			all[name].Write(code)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	for name, b := range all {
		code[name] = b.String()
	}
	return code
}

// TestTheTablesAreTrue: the files, folders and Go names exist that the tables of docs/ARCHITECTURE.md
// point at, and a name is in the file that it is said to be in.
func TestTheTablesAreTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	code := goFiles(t)
	defined := map[string]map[string]bool{} // by file: its names
	defines := func(file, name string) bool {
		if defined[file] == nil {
			defined[file] = map[string]bool{}
			for _, m := range definition.FindAllStringSubmatch(code[file], -1) {
				defined[file][m[1]] = true
			}
		}
		return defined[file][name[strings.LastIndex(name, ".")+1:]]
	}
	checked := 0
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			name, ok := m[1], true
			switch _, err := os.Stat("../../" + name); {
			case strings.ContainsAny(name, "*[") && strings.Contains(name, "/") || strings.HasPrefix(name, "-"):
				continue
			case strings.HasSuffix(name, ".go"):
				ok = code[name] != "" || err == nil
			case strings.Contains(name, "/"):
				ok = err == nil
			case identifier.MatchString(name):
				ok = defines("", name) || strings.Contains(code[""], `"`+name)
			default:
				continue
			}
			if checked++; !ok {
				t.Errorf("there is no %s: %s", name, line)
			}
		}
		for _, m := range within.FindAllStringSubmatch(line, -1) {
			if !defines(m[2], m[1]) {
				t.Errorf("%s does not define %s: %s", m[2], m[1], line)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d names were found", checked)
	}
}
