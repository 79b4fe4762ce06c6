package docs

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	target    = regexp.MustCompile(`\]\(<?([^()\s>]+(?:\([^()\s]*\))?)>?(?: +"[^"]*")?\)`)
	reference = regexp.MustCompile(`^ {0,3}\[[^\]]+\]: +<?(\S+?)>?(?: .*)?$`)
	bare      = regexp.MustCompile(`https?://[^\s()<>"'` + "`" + `]*[^\s()<>"'.,;:` + "`" + `]`)
)

// targets are where the links of a line lead.
func targets(line string) (found []string) {
	line = withoutSpans(line)
	for _, m := range target.FindAllStringSubmatch(line, -1) {
		found = append(found, m[1])
	}
	if m := reference.FindStringSubmatch(line); m != nil {
		found = append(found, m[1])
	}
	for _, m := range bare.FindAllString(line, -1) {
		if !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	return found
}

func outside(target string) bool {
	return regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`).MatchString(target)
}

// TestLinks: each link to a file or a heading of this tree leads somewhere.
func TestLinks(t *testing.T) {
	pages := everyPage(t)
	byName := map[string]*page{}
	for _, p := range pages {
		byName[p.name] = p
	}
	checked := 0
	for _, p := range pages {
		for _, line := range p.text {
			for _, to := range targets(line.text) {
				if outside(to) {
					continue
				}
				checked++
				if why := broken(p, to, byName); why != "" {
					t.Errorf("%s:%d: %s: %s", p.name, line.number, to, why)
				}
			}
		}
	}
	t.Logf("%d links in %d pages", checked, len(pages))
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// broken says why a link of a page leads nowhere.
func broken(p *page, to string, pages map[string]*page) string {
	file, fragment, hasFragment := strings.Cut(to, "#")
	file, err := url.PathUnescape(file)
	if err != nil {
		return err.Error()
	}
	name := p.name
	if file != "" {
		name = path.Join(path.Dir(p.name), file)
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return "there is no " + name
		}
	}
	if !hasFragment {
		return ""
	}
	on := pages[name]
	if on == nil {
		return ""
	}
	if fragment, err = url.PathUnescape(fragment); err != nil || !slices.Contains(on.anchors, fragment) {
		return name + " has no such heading; it has #" + strings.Join(on.anchors, " #")
	}
	return ""
}

func TestBrokenLinksAreNoticed(t *testing.T) {
	p := parse("docs/a.md", "# One\n[x](#one) [x](#two) [x](../README.md#nothing) [x](missing.md) [x](../go.mod) "+
		"`[x](#code)`\n\n[y]: missing.md")
	var got []string
	for _, line := range p.text {
		for _, to := range targets(line.text) {
			if broken(p, to, map[string]*page{"docs/a.md": p, "README.md": parse("README.md", "# R")}) != "" {
				got = append(got, to)
			}
		}
	}
	if want := []string{"#two", "../README.md#nothing", "missing.md", "missing.md"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOutsideLinks asks for each page elsewhere that a link leads to. `make links` runs it: make
// test needs no network.
func TestOutsideLinks(t *testing.T) {
	if os.Getenv("KATSUBUSHI_LINKS") != "1" {
		t.Skip("make links runs it")
	}
	at := map[string][]string{}
	for _, p := range everyPage(t) {
		for _, line := range p.text {
			for _, to := range targets(line.text) {
				u, err := url.Parse(to)
				if err != nil {
					t.Errorf("%s:%d: %v", p.name, line.number, err)
				} else if u.Scheme == "http" || u.Scheme == "https" {
					u.Fragment = ""
					if host := u.Hostname(); !strings.Contains(host, ".") || strings.HasSuffix(host, ".example") ||
						strings.HasPrefix(host, "127.") {
						continue
					}
					at[u.String()] = append(at[u.String()], p.name)
				}
			}
		}
	}
	limit := make(chan struct{}, 8)
	for to, pages := range at {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			limit <- struct{}{}
			defer func() { <-limit }()
			ask(t, to, pages)
		})
	}
}

// ask fails for a page that is gone. A server that cannot be reached, or that does not like to be
// asked by a program, proves nothing.
func ask(t *testing.T, to string, pages []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("User-Agent", "Mozilla/5.0 (link check of katsubushi's documentation)")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		t.Skip("it cannot be reached: ", err)
	}
	response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone:
		t.Errorf("%s is gone: %s", strings.Join(pages, ", "), response.Status)
	case response.StatusCode >= 400:
		t.Skip(response.Status)
	}
}
