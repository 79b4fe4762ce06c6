package docs

import (
	"encoding/json"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	leads  = regexp.MustCompile(`\s(?:href|src|srcset)="([^"]*)"`)
	ids    = regexp.MustCompile(`\sid="([^"]*)"`)
	inMain = regexp.MustCompile(`(?s)<main id="content">(.*)</main>`)
	inNav  = regexp.MustCompile(`(?s)<nav .*?</nav>`)
)

// siteDir returns the site, as `make docs-site` made it or as bin/hugo makes it now.
func siteDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("KATSUBUSHI_SITE"); dir != "" {
		return dir
	}
	hugo, err := filepath.Abs(filepath.Join(root, "bin/hugo"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(hugo); err != nil {
		t.Skip("there is no bin/hugo: make docs-site builds it")
	}
	// go test looks at what hugo reads only if the test reads it too: else a result from before would do.
	err = filepath.WalkDir(filepath.Join(root, "docs-site"), func(file string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(hugo, "--quiet", "--noBuildLock", "--panicOnWarning", "--source", "docs-site",
		"--destination", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// sitePages returns the HTML of each page of the site, by its name.
func sitePages(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(text)
	}
	return pages
}

// brokenInSite says why a link of the site leads nowhere.
func brokenInSite(dir, from, to string, pages map[string]string) string {
	file, fragment, _ := strings.Cut(html.UnescapeString(to), "#")
	if file = path.Join(path.Dir(from), file); file == "." {
		file = from
	}
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
		return "there is no " + file
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return err.Error()
	}
	if fragment == "" {
		return ""
	}
	for _, m := range ids.FindAllStringSubmatch(pages[file], -1) {
		if html.UnescapeString(m[1]) == fragment {
			return ""
		}
	}
	return file + " has no " + fragment
}

// TestSite: the site has every page with every heading under the anchor that it has on GitHub, each link in it
// leads somewhere within it or to a file of this tree on GitHub, and the search has every heading.
func TestSite(t *testing.T) {
	dir := siteDir(t)
	pages := sitePages(t, dir)
	index, beside := siteIndex(t, dir), inNav.FindString(pages["index.html"])
	for _, p := range read(t, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md") {
		name := strings.TrimSuffix(path.Base(p.name), ".md") + ".html"
		if p.name == "README.md" {
			name = "index.html"
		}
		text := inMain.FindString(pages[name])
		if text == "" {
			t.Errorf("%s is not in the site", p.name)
			continue
		}
		if name != "index.html" && !strings.Contains(beside, `href="./`+name+`"`) {
			t.Errorf("%s is not among the pages beside the text: docs-site/data/nav.yaml", p.name)
		}
		for _, a := range p.anchors {
			if !strings.Contains(text, ` id="`+html.EscapeString(a)+`"`) {
				t.Errorf("%s has no anchor %s", name, a)
			}
			if depth := p.depth(a); depth > 0 && depth <= 3 && !slices.Contains(index, name+"#"+a) {
				t.Errorf("the search does not know %s#%s", name, a)
			}
		}
	}
	checked := 0
	for name, text := range pages {
		for _, m := range leads.FindAllStringSubmatch(text, -1) {
			checked++
			if file, ok := strings.CutPrefix(m[1], "https://github.com/katsubushi/katsubushi/blob/main/"); ok {
				file, _, _ = strings.Cut(file, "#")
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s: there is no %s", name, file)
				}
			} else if !outside(m[1]) {
				if why := brokenInSite(dir, name, m[1], pages); why != "" {
					t.Errorf("%s: %s: %s", name, m[1], why)
				}
			}
		}
	}
	t.Logf("%d pages, %d links, %d sections for the search", len(pages), checked, len(index))
	if checked < 1000 || len(index) < 200 {
		t.Error("too few were found")
	}
	for _, wrong := range []string{"NOTHING.html", "FAQ.html#nothing", "#nothing"} {
		if brokenInSite(dir, "index.html", wrong, pages) == "" {
			t.Errorf("%s passes", wrong)
		}
	}
}

// siteIndex returns where the sections lead that the search knows.
func siteIndex(t *testing.T, dir string) (urls []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "searchindex.js"))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "const searchIndex = ")
	text, ends := strings.CutSuffix(text, ";")
	var sections []struct{ Page, Head, URL, Text string }
	if err := json.Unmarshal([]byte(text), &sections); err != nil || !ok || !ends {
		t.Fatal("the search's index cannot be read: ", err)
	}
	for _, s := range sections {
		if s.Page == "" || s.Head == "" {
			t.Errorf("%s has no title", s.URL)
		}
		urls = append(urls, s.URL)
	}
	return urls
}

// depth is how deep a heading is, by its anchor; 0 if the anchor is no heading's.
func (p *page) depth(anchor string) int {
	seen := &page{}
	for _, line := range p.text {
		if m := heading.FindStringSubmatch(line.text); m != nil {
			slug := seen.slug(m[1])
			seen.anchors = append(seen.anchors, slug)
			if slug == anchor {
				return strings.IndexByte(line.text, ' ')
			}
		}
	}
	return 0
}
