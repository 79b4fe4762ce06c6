package storefaults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\bTest\w+|"[^"]+"`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(|^== (.*)`)
)

// Documented holds the tables of faults in the package's FAULTS.md to what they say: every test that they
// name exists, and they name every test in these files, whose paths begin at the package. The sections of scripts are
// tests too, and so is what Faults does if one of the files is faults_test.go: their names stand in quotes.
func Documented(t *testing.T, files ...string) {
	t.Helper()
	const page = "FAULTS.md"
	tables, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		files[i] = filepath.Join(sourceDir(t), file)
	}
	var named []string
	for row := range strings.Lines(string(tables)) {
		if tests := testName.FindAllString(row, -1); strings.HasPrefix(row, "| ") {
			named = append(named, tests...)
			if tests == nil && !strings.HasSuffix(row, "| |\n") { // a heading
				t.Errorf("no test: %s", row)
			}
		}
	}
	all := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".script") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, f := range testFunc.FindAllSubmatch(source, -1) {
			name := string(f[1])
			if name == "" {
				name = fmt.Sprintf("%q", f[2])
			}
			all[name] = true
			if name != "TestMain" && name != "TestFaults" && slices.Contains(files, path) && !slices.Contains(named, name) {
				t.Errorf("%s: %s does not name %s", path, page, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults() {
		name, _, _ := strings.Cut(f.name, ",")
		name = strconv.Quote(name)
		all[name] = true
		if slices.Contains(files, filepath.Join(sourceDir(t), "faults_test.go")) && !slices.Contains(named, name) {
			t.Errorf("%s does not name %s", page, name)
		}
	}
	for _, test := range named {
		if !all[test] {
			t.Errorf("%s names %s, which there is not", page, test)
		}
	}
}

// sourceDir is the package's directory, as it is called from the root of the module.
func sourceDir(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join("../..", filepath.Base(filepath.Dir(dir)), filepath.Base(dir))
}
