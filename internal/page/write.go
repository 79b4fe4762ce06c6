package page

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Markup is HTML of our own. Only files of this package become markup, and nothing here converts: so every
// text that comes from elsewhere goes through writer.text.
type markup string

// A writer collects HTML.
type writer struct{ b []byte }

// fields are what a template shows, by name: a string, which is escaped; markup; a bool; or []fields.
type fields map[string]any

// fill appends a template. {{name}} stands for a field, {{#name}}..{{/#name}} for each element of a list,
// {{?name}}..{{/?name}} if the field is not empty, {{^name}}..{{/^name}} if it is. A list's element knows only its
// own fields. A name that is not there is our mistake, and panics. The library's templates can do more, and make the
// program 9 MB larger: they call methods by name, so the linker keeps all.
func (w *writer) fill(template string, f fields) {
	for {
		before, rest, found := strings.Cut(template, "{{")
		w.b = append(w.b, before...)
		if !found {
			return
		}
		tag, rest, _ := strings.Cut(rest, "}}")
		name := strings.TrimLeft(tag, "#?^")
		if name == tag {
			w.show(f, name)
			template = rest
			continue
		}
		inside, behind, _ := strings.Cut(rest, "{{/"+tag+"}}")
		template = behind
		list := f.list(name)
		switch mark := tag[0]; {
		case mark == '#':
			for _, one := range list {
				w.fill(inside, one)
			}
		case (mark == '?') == (len(list) > 0):
			w.fill(inside, f)
		}
	}
}

// show appends one field.
func (w *writer) show(f fields, name string) {
	switch v := f[name].(type) {
	case string:
		w.text(v)
	case markup:
		w.b = append(w.b, v...)
	default:
		panic("page: no field " + name)
	}
}

// list returns the elements of a field; of one that is no list, one element if it is not empty.
func (f fields) list(name string) []fields {
	there := false
	switch v := f[name].(type) {
	case []fields:
		return v
	case string:
		there = v != ""
	case bool:
		there = v
	default:
		panic("page: no field " + name)
	}
	if there {
		return []fields{f}
	}
	return nil
}

// maxText is how many characters of one text are shown.
const maxText = 400

// text appends a text from anywhere, for between tags or inside a quoted attribute. Characters that
// cannot be seen, and those that turn the direction of what follows, become U+FFFD.
func (w *writer) text(s string) {
	n := 0
	s = clean(s)
	for at := range s {
		if n++; n > maxText {
			w.escape(s[:at])
			w.b = append(w.b, "…"...)
			return
		}
	}
	w.escape(s)
}

// escape appends a text of our own, whatever its length.
func (w *writer) escape(s string) {
	for _, c := range s {
		switch c {
		case '&':
			w.b = append(w.b, "&amp;"...)
		case '<':
			w.b = append(w.b, "&lt;"...)
		case '>':
			w.b = append(w.b, "&gt;"...)
		case '"':
			w.b = append(w.b, "&#34;"...)
		case '\'':
			w.b = append(w.b, "&#39;"...)
		default:
			w.b = utf8.AppendRune(w.b, c)
		}
	}
}

// credentials are a user and a password in a URL.
var credentials = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`//[^/@\s]*@`)
})

// clean returns a text without what must not be shown, neither in HTML nor in plain text: control
// characters, characters that turn the direction, and passwords in URLs. No text should have one; errors
// of libraries might.
func clean(s string) string {
	if len(s) > 4*maxText { // more than what is shown
		s = s[:4*maxText] + "…"
	}
	if strings.Contains(s, "@") {
		s = credentials().ReplaceAllString(s, "//…@")
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == '\r':
			return ' '
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
			return utf8.RuneError
		}
		return c
	}, s)
}

// number writes a whole number in groups of three: 1,234,567.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// signed is number for what may be negative.
func signed(n int64) string {
	if n < 0 {
		return "−" + number(uint64(-n))
	}
	return number(uint64(n))
}

// amount writes a value with as many digits as people read: 0, 0.2, 12.4, 1,234.
func amount(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return number(uint64(v + 0.5))
}

// span writes a duration with two units at most: 350 ms, 41.2 s, 5 m 3 s, 2 d 4 h.
func span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "−", -d
	}
	two := func(big, small time.Duration, names string) string {
		b, s := d/big, d%big/small
		unit := strings.Fields(names)
		if s == 0 {
			return sign + number(uint64(b)) + " " + unit[0]
		}
		return sign + number(uint64(b)) + " " + unit[0] + " " + strconv.Itoa(int(s)) + " " + unit[1]
	}
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return sign + strconv.Itoa(int(d)) + " ns"
	case d < time.Millisecond:
		return sign + strconv.Itoa(int(d/time.Microsecond)) + " µs"
	case d < 10*time.Millisecond:
		return sign + strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
	case d < time.Second:
		return sign + strconv.Itoa(int(d/time.Millisecond)) + " ms"
	case d < time.Minute:
		return sign + strconv.FormatFloat(float64(d/(100*time.Millisecond))/10, 'f', 1, 64) + " s"
	case d < time.Hour:
		return two(time.Minute, time.Second, "min s")
	case d < day:
		return two(time.Hour, time.Minute, "h min")
	case d < 365*day:
		return two(day, time.Hour, "d h")
	}
	return two(365*day, day, "y d")
}

// size writes bytes: 12 KiB, 256 MiB.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + " " + units[i]
}

// clockTime is how times are shown, in the host's zone.
const clockTime = "15:04:05"
