package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// A page is one Markdown file.
type page struct {
	name    string // with slashes, from the root of the tree
	lines   []string
	blocks  []*block
	text    []textLine // what is outside the blocks and the comments
	anchors []string
	marks   []string // all comments
}

// A textLine is a line outside blocks. Its number counts from 1.
type textLine struct {
	number int
	text   string
}

// A block is what stands between two fences.
type block struct {
	page     *page
	line     int    // of the opening fence, from 1
	language string // the first word after the fence, in lower case, or ""
	tag      string // the rest of that line
	lines    []string
	marks    []string // the comments right before it
}

var (
	fence   = regexp.MustCompile("^( *)(```+|~~~+) *([^`]*)$")
	heading = regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`)
	anchor  = regexp.MustCompile(`<[a-z]+[^>]* (?:name|id)="([^"]+)"`)
	link    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// parse reads one page.
func parse(name, text string) *page {
	p := &page{name: name, lines: strings.Split(text, "\n")}
	var marks []string // since the last line of text
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		if m := fence.FindStringSubmatch(line); m != nil {
			b := &block{page: p, line: i + 1, marks: marks}
			b.language, b.tag, _ = strings.Cut(strings.TrimSpace(m[3]), " ")
			b.language = strings.ToLower(b.language)
			for i++; i < len(p.lines) && strings.TrimSpace(p.lines[i]) != m[2]; i++ {
				b.lines = append(b.lines, strings.TrimPrefix(p.lines[i], m[1]))
			}
			p.blocks, marks = append(p.blocks, b), nil
			continue
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "<!--"); ok {
			for !strings.Contains(rest, "-->") && i+1 < len(p.lines) {
				i++
				rest += "\n" + p.lines[i]
			}
			rest, _, _ = strings.Cut(rest, "-->")
			marks = append(marks, strings.TrimSpace(rest))
			p.marks = append(p.marks, strings.TrimSpace(rest))
			continue
		}
		if strings.TrimSpace(line) != "" {
			marks = nil
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchors = append(p.anchors, p.slug(m[1]))
		}
		for _, m := range anchor.FindAllStringSubmatch(line, -1) {
			p.anchors = append(p.anchors, m[1])
		}
		p.text = append(p.text, textLine{i + 1, line})
	}
	return p
}

// slug is the anchor that GitHub gives a heading.
func (p *page) slug(text string) string {
	text = link.ReplaceAllString(text, "$1")
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, text)
	for unique, n := slug, 1; ; n++ {
		if !slices.Contains(p.anchors, unique) {
			return unique
		}
		unique = slug + "-" + string(rune('0'+n))
	}
}

// spans are the code spans of a line, without their backticks.
func spans(line string) (found []string) {
	for {
		begin := strings.IndexByte(line, '`')
		if begin < 0 {
			return found
		}
		ticks := len(line[begin:]) - len(strings.TrimLeft(line[begin:], "`"))
		inside, rest, ok := strings.Cut(line[begin+ticks:], line[begin:begin+ticks])
		if !ok {
			return found
		}
		found, line = append(found, strings.TrimSpace(inside)), rest
	}
}

// withoutSpans is a line whose code spans are blanked.
func withoutSpans(line string) string {
	return regexp.MustCompile("`+[^`]*`+").ReplaceAllString(line, "``")
}

// read returns the pages that match one of the patterns.
func read(t *testing.T, patterns ...string) (pages []*page) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files match %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, parse(filepath.ToSlash(name), string(text)))
		}
	}
	return pages
}

// manual are the pages that users read.
func manual(t *testing.T) []*page { return read(t, "README.md", "docs/*.md") }

// everyPage is each Markdown file of the tree.
func everyPage(t *testing.T) []*page {
	t.Helper()
	var patterns []string
	err := filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, file)
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || slices.Contains([]string{"bin", "tmp"}, name)) {
			return filepath.SkipDir
		}
		if dir := path.Dir(filepath.ToSlash(name)) + "/*.md"; filepath.Ext(name) == ".md" && !slices.Contains(patterns, dir) {
			patterns = append(patterns, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read(t, patterns...)
}

func TestParse(t *testing.T) {
	p := parse("a.md", strings.Join([]string{
		"# One & *two*: `a_b`", "text `code` and ``a ` b``", "", "<!-- with: etcd -->", "", "   ```sh tag", "   echo 1",
		"     2", "   ```",
		"<!-- of the text -->", "between", "```", "# no heading", "```", "## One", "# One", `<a id="here"></a>`, "<!-- two",
		"lines -->", "```console", "$ x",
	}, "\n"))
	if got := strings.Join(p.anchors, " "); got != "one--two-a_b one one-1 here" {
		t.Errorf("anchors %q", got)
	}
	if len(p.blocks) != 3 {
		t.Fatalf("%d blocks", len(p.blocks))
	}
	b := p.blocks[0]
	if b.language != "sh" || b.tag != "tag" || b.line != 6 || !slices.Equal(b.lines, []string{"echo 1", "  2"}) ||
		!slices.Equal(b.marks, []string{"with: etcd"}) {
		t.Errorf("%+v", b)
	}
	if b := p.blocks[1]; len(b.marks) != 0 || b.language != "" {
		t.Errorf("%+v", b)
	}
	if b := p.blocks[2]; !slices.Equal(b.marks, []string{"two\nlines"}) {
		t.Errorf("%+v", b)
	}
	if got := spans(p.lines[1]); !slices.Equal(got, []string{"code", "a ` b"}) {
		t.Errorf("spans %q", got)
	}
}
