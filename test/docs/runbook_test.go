package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestRunbookHasEveryAlert: an alert has a heading of its own, which links can name, and no heading is
// left over.
func TestRunbookHasEveryAlert(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/katsubushi.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(file, &rules); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts[r.Alert] = true
				if link := r.Annotations["runbook_url"]; !strings.HasSuffix(link, "/docs/RUNBOOK.md#"+strings.ToLower(r.Alert)) {
					t.Errorf("%s links to %q", r.Alert, link)
				}
			}
		}
	}
	var headings []string
	for _, m := range regexp.MustCompile(`(?m)^### (Katsubushi\w+)$`).FindAllStringSubmatch(runbook(t), -1) {
		headings = append(headings, m[1])
	}
	slices.Sort(headings)
	if want := slices.Sorted(maps.Keys(alerts)); len(want) < 10 || !slices.Equal(headings, want) {
		t.Errorf("the rules have\n%v\nand docs/RUNBOOK.md\n%v", want, headings)
	}
}

// TestRunbookHasEveryRefusal: whatever the issuer refuses a request with, the runbook says what it means.
func TestRunbookHasEveryRefusal(t *testing.T) {
	text := runbook(t)
	files, err := filepath.Glob(filepath.Join(root, "internal/issuer/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	refusals := map[string]bool{}
	add := func(l ast.Node) {
		if l, ok := l.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				refusals[s] = true
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Refusal" {
					ast.Inspect(n, func(n ast.Node) bool {
						add(n)
						return true
					})
				}
			case *ast.BasicLit:
				if strings.HasPrefix(n.Value, `"sequence %s`) {
					add(n)
				}
			}
			return true
		})
	}
	if len(refusals) < 15 {
		t.Fatalf("only %d refusals were found: %v", len(refusals), refusals)
	}
	for r := range refusals {
		for _, part := range regexp.MustCompile(`sequence %s:?|%[.0-9]*[a-z]s?`).Split(r, -1) {
			if part = strings.Trim(part, ": "); len(part) > 4 && !strings.Contains(text, part) {
				t.Errorf("docs/RUNBOOK.md says nothing about %q: there is no %q", r, part)
			}
		}
	}
}

func runbook(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
