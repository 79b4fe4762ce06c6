package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// varying are parts of an output that differ from run to run, and what stands for them.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| ?[+-]\d\d:?\d\d)?`), "<time>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "<date>"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(h|m|s|ms|µs|us|ns)\b`), "<duration>"},
	{regexp.MustCompile(`\bv?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?( |$|")`), "<version>$2"},
	{regexp.MustCompile(`:\d{2,5}\b`), ":<port>"},
	{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "<ulid>"},
	{regexp.MustCompile(`\b[0-9a-f]{24,}\b`), "<hex>"},
	{regexp.MustCompile(`\b\d{5,}(\.\d+)?\b`), "<number>"},
	{regexp.MustCompile(`\b(pid|PID)([ =])\d+`), "$1$2<number>"},
}

func pattern(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.name)
	}
	return strings.Join(strings.Fields(line), " ")
}

// trimmed is an output without the blanks at the ends of its lines, and without empty lines around it.
func trimmed(lines []string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// alike compares what is shown with what was printed. Ids, times, ports and the like may be others.
// Dots stand for what is left out: in a line of their own for any lines, elsewhere for a part of
// the line.
func alike(shown, got []string) bool {
	if len(shown) == 0 {
		return len(got) == 0
	}
	if dots(strings.TrimSpace(shown[0])) {
		for i := range len(got) + 1 {
			if alike(shown[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && alikeLine(shown[0], got[0]) && alike(shown[1:], got[1:])
}

func dots(text string) bool { return text == "..." || text == "…" }

func alikeLine(shown, got string) bool {
	parts := regexp.MustCompile(`\.\.\.|…`).Split(pattern(shown), -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(pattern(got))
}

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		shown, got string
		want       bool
	}{
		{"VALUE id 0 19\n1573304824835870720\nEND", "VALUE id 0 19\n1573304824835899999\nEND", true},
		{"VALUE id 0 19\n1573304824835870720\nEND", "VALUE id 0 18\n157330482483587072\nEND", false},
		{"(integer) 1", "(integer) 2", false},
		{"019aa8f2-6c5b-7000-8401-93b1a6f0c2d7", "019aa8f2-6c5b-7000-8401-93b1a6f0c2d8", true},
		{"at 2026-11-20T12:00:00Z for 12s", "at 2027-01-02T03:04:05.678Z for 1m3.5s", true},
		{"a\n...\nz", "a\nb\nc\nz", true},
		{"a\n...\nz", "a\nz", true},
		{"a\n...\nz", "a\nb", false},
		{"level=INFO msg=listening address=... x", "level=INFO msg=listening address=127.0.0.1:1 engine=uring x", true},
		{"level=INFO msg=listening ... x", "level=WARN msg=listening a x", false},
		{"", "a", false}, {"a", "", false}, {"ok", "ok\nwarning", false},
		{"127.0.0.1:8081", "127.0.0.1:34567", true}, {"127.0.0.1:8081", "127.0.0.2:34567", false},
	} {
		if got := alike(trimmed(strings.Split(c.shown, "\n")), trimmed(strings.Split(c.got, "\n"))); got != c.want {
			t.Errorf("%q, %q: %v", c.shown, c.got, got)
		}
	}
}
