package sql

import (
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// DefaultTable is the table without ?table=NAME.
const DefaultTable = "katsubushi_sequences"

// A target is what a URL says.
type target struct {
	kind     *dialect
	user     string
	host     string // empty = the socket
	port     uint16
	socket   string // PostgreSQL: its directory
	database string
	table    string
	leaf     bool              // the table is Leaf's
	options  map[string]string // of the dialect
}

// Schemes are those of URLs.
func Schemes() (names []string) {
	for i := range dialects {
		names = append(names, dialects[i].schemes...)
	}
	return names
}

// plainTable is a name that needs no quotes, in either kind of database; a schema may come first.
var plainTable = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// parse returns what a URL says, or everything that is wrong with it, as an error of package problem.
// No error repeats the URL, which may contain a password.
func parse(text string) (*target, error) {
	var problems problem.List
	wrong := func(format string, args ...any) { problems.Add("URL", format, args...) }
	scheme, _, _ := strings.Cut(text, "://")
	i := slices.IndexFunc(dialects, func(d dialect) bool { return slices.Contains(d.schemes, scheme) })
	u, err := url.Parse(text)
	if i < 0 || err != nil {
		wrong("%s://USER@HOST:PORT/DATABASE allowed", strings.Join(Schemes(), "://..., "))
		return nil, problems.Err()
	}
	d := &dialects[i]
	t := &target{kind: d, user: u.User.Username(), host: u.Hostname(), port: d.port,
		database: strings.TrimPrefix(u.Path, "/"),
		table:    DefaultTable, options: map[string]string{}}
	if _, ok := u.User.Password(); ok {
		wrong("it contains a password, which ps shows: put it into a file, -counters-password-file")
	}
	if t.user == "" {
		wrong("it names no user: %s://USER@HOST/DATABASE", scheme)
	}
	if t.database == "" || strings.Contains(t.database, "/") {
		wrong("it names no database: %s://USER@HOST/DATABASE", scheme)
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			wrong("port %s: 1 to 65535 allowed", p)
		}
		t.port = uint16(n)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		wrong("what follows ? is not NAME=VALUE&...")
	}
	if query.Has("layout") {
		t.leaf, t.table = true, LeafTable
	}
	for name, values := range query {
		value := values[len(values)-1]
		switch allowed, known := d.options[name]; {
		case name == "table":
			if t.table = value; !plainTable.MatchString(value) {
				wrong("table=%s: a name of a-z, 0-9 and _ is allowed, with SCHEMA. before it or not", value)
			}
		case name == "layout":
			if value != "leaf" {
				wrong("layout=%s: leaf allowed", value)
			}
		case name == "socket":
			if t.socket = value; !filepath.IsAbs(value) {
				wrong("socket=%s: an absolute path is allowed", value)
			}
		case !known:
			wrong("unknown option %s: %s", name, strings.Join(d.optionNames(), ", "))
		case allowed != nil && !slices.Contains(allowed, value):
			wrong("%s=%s: %s allowed", name, value, strings.Join(allowed, ", "))
		default:
			t.options[name] = value
		}
	}
	if (t.host == "") == (t.socket == "") {
		wrong("a host or ?socket=PATH is needed, one of the two")
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// String names the table as messages do: without the user.
func (t *target) String() string {
	at := t.socket
	if t.host != "" {
		at = t.host + ":" + strconv.Itoa(int(t.port))
	}
	return "table " + t.table + " in database " + t.database + " of " + t.kind.name + " at " + at
}

// Validate returns what is wrong with the URL, as an error of package problem. It does no I/O.
func (c Config) Validate() error {
	_, err := parse(c.URL)
	return err
}

// Leaf reports whether the table is Leaf's.
func (c Config) Leaf() bool {
	t, err := parse(c.URL)
	return err == nil && t.leaf
}

// ReadSecrets reads the files that the Config names. Its error has the same form as Validate's.
func (c Config) ReadSecrets() error {
	var problems problem.List
	t, err := parse(c.URL)
	if err != nil {
		return nil // Validate says so
	}
	password := ""
	if c.PasswordFile != "" {
		if password, err = secretfile.Password(c.PasswordFile); err != nil {
			problems.Add("PasswordFile", "%w", err)
		}
	}
	if _, err := t.kind.connector(t, password); err != nil { // reads the certificates, and does not connect
		problems.Add("URL", "%w", err)
	}
	return problems.Err()
}

var errClosed = errors.New("the counter store is closed")
