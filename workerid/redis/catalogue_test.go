package redis

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables of faults in docs/REDIS.md name the tests, and these tables are held true: there is
// every test that they name, and they name every test of the files that are about faults. Sequences
// have a page of their own.
func TestFaultsAreInTheDocumentation(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/REDIS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(docs), "\n## How it is tested\n")
	if !found {
		t.Fatal("docs/REDIS.md does not say how it is tested")
	}
	var named []string
	name := regexp.MustCompile(`\bTest\w+`)
	for row := range strings.Lines(tables) {
		if tests := name.FindAllString(row, -1); strings.HasPrefix(row, "| ") {
			named = append(named, tests...)
			if tests == nil && !strings.HasSuffix(row, "| |\n") { // a heading
				t.Errorf("no test: %s", row)
			}
		}
	}
	about := []string{"availability_test.go", "clock_test.go", "cluster_test.go", "failover_test.go", "fault_test.go",
		"loss_test.go", "leaseclock_linux_test.go", "leasefaults_linux_test.go"}
	function, tests := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, f := range function.FindAllSubmatch(source, -1) {
			tests[string(f[1])] = true
			if slices.Contains(about, d.Name()) && !strings.Contains(path, "/counter/") &&
				!slices.Contains(named, string(f[1])) {
				t.Errorf("%s: docs/REDIS.md does not name %s", path, f[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range named {
		if !tests[test] {
			t.Errorf("docs/REDIS.md names %s, which there is not", test)
		}
		if slices.Contains(named[:i], test) {
			t.Errorf("docs/REDIS.md names %s twice", test)
		}
	}
}
