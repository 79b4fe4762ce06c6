package endpoint

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// A Protocol is what URLs of one kind of store with a tree of keys have in common.
type Protocol struct {
	Scheme    string // without TLS; with it, an s follows
	Port      int    // where none is given
	Beside    string // the first part of PATH must not be this; empty = anything
	Path      string // where none is given
	Namespace string // where none is given
	Plain     bool   // names are letters, digits and "_.-", and a namespace may have several parts
}

// Schemes returns those of the URLs.
func (p Protocol) Schemes() []string { return []string{p.Scheme, p.Scheme + "s"} }

// A Target is what a URL says:
//
//	SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?ns=NAME&ca=FILE&cert=FILE&key=FILE
type Target struct {
	Hosts          []string // HOST:PORT
	User, Password string   // empty = none
	PasswordFile   string   // read instead for each connection; no URL says it
	Path           []string // its parts
	Namespace      string
	TLS            bool
	Files          Files
}

// Where is for errors and logs: it has no secrets.
func (t Target) Where() string { return strings.Join(t.Hosts, ",") }

// Key returns the key of a record, such as /PATH/NAME/meta.
func (t Target) Key(parts ...string) string {
	var b strings.Builder
	for _, all := range [][]string{t.Path, {t.Namespace}, parts} {
		for _, part := range all {
			b.WriteString("/" + part)
		}
	}
	return b.String()
}

// Target reads a URL. The problems do not repeat what may be a password.
func (p Protocol) Target(text string) (t Target, problems problem.List) {
	wrong := func(format string, args ...any) { problems.Add("URL", format, args...) }
	u, err := Split(text)
	if t.TLS = u.Scheme == p.Scheme+"s"; !t.TLS && u.Scheme != p.Scheme {
		wrong("a URL begins with %s:// or %ss://", p.Scheme, p.Scheme)
		return t, problems
	}
	if err := u.Stray(options...); err != nil {
		wrong("%w", err)
		return t, problems
	}
	if err != nil || u.Login && (u.User == "" || strings.ContainsAny(u.User, ":\x00")) {
		wrong("%w", errNoLogin)
	}
	t.User, t.Password = u.User, u.Password
	hosts, errs := u.Addresses(p.Port)
	for _, err := range errs {
		wrong("%w", err)
	}
	t.Hosts = hosts
	p.readPath(&t, u.Path, wrong)
	p.readQuery(&t, u.Query, wrong)
	if len(t.Path) == 0 && p.Beside != "" && t.Namespace == p.Beside {
		wrong("ns=%s: /%s is the store's own", t.Namespace, p.Beside)
	}
	return t, problems
}

var options = append([]string{"ns"}, FileOptions...)

func (p Protocol) readPath(t *Target, path string, wrong func(string, ...any)) {
	short := strings.TrimSuffix(path, "/")
	if short == "" {
		short = p.Path
	}
	for part := range strings.SplitSeq(short, "/") {
		if short == "" {
			break
		}
		name, err := url.PathUnescape(part)
		if bad := p.badName(name); err != nil || bad != "" {
			wrong("the path /%s: %q %s", path, part, bad)
		}
		t.Path = append(t.Path, name)
	}
	if p.Beside != "" && len(t.Path) > 0 && t.Path[0] == p.Beside {
		wrong("the path /%s: /%s is the store's own", path, p.Beside)
	}
}

func (p Protocol) readQuery(t *Target, query string, wrong func(string, ...any)) {
	t.Namespace = p.Namespace
	values, err := url.ParseQuery(query)
	if err != nil {
		wrong("the query after ? cannot be read")
	}
	if err := t.ReadFiles(values, p.Scheme+"s"); err != nil {
		wrong("%w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch v := values[name]; {
		case name != "ns" || len(v) > 1:
			wrong("?%s: ns, ca, cert and key are allowed, once each", name)
		case v[0] == "":
			wrong("?%s= is empty", name)
		default:
			t.Namespace = v[0]
		}
	}
	parts := []string{t.Namespace}
	if p.Plain {
		parts = strings.Split(t.Namespace, "/")
	}
	for _, part := range parts {
		if bad := p.badName(part); bad != "" {
			wrong("ns=%s: %q %s", t.Namespace, part, bad)
		}
	}
}

const maxName = 64 // bytes of a part of a path, and of a namespace

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// badName says what is wrong with a part of a path.
func (p Protocol) badName(name string) string {
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r >= 0xfff0 }
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case p.Plain && strings.Trim(name, plain) != "":
		return `has other characters than letters, digits and "_.-"`
	case !p.Plain && (name == "." || name == ".."):
		return "is relative: a path has no . and no .."
	case !utf8.ValidString(name) || strings.Contains(name, "/") || strings.ContainsFunc(name, odd):
		return "has a character that names must not have: a slash, a space, a control character"
	}
	return ""
}

// CheckPassword adds to problems what is wrong with the user and the passwords of a target.
func (p Protocol) CheckPassword(t Target, problems *problem.List) {
	readable := len(*problems) == 0
	CheckPassword(t.Password, t.PasswordFile, problems)
	switch hasFile := t.PasswordFile != ""; {
	case hasFile && t.Password == "" && t.User == "" && readable:
		problems.Add("PasswordFile", "a password of nobody: the URL names no user, as %s://USER@HOST does", p.Scheme)
	case !hasFile && t.User != "" && t.Password == "":
		problems.Add("URL", "user %s has no password: write USER:PASSWORD@, or name a file that has it", t.User)
	}
}
