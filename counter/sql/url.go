package sql

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// defaultTable is the table without ?table=NAME.
const defaultTable = "katsubushi_sequences"

// A target is what a URL says.
type target struct {
	kind           *dialect
	user, password string
	host, port     string // host empty = the socket
	socket         string // PostgreSQL: its directory, in which the port names it
	database       string
	table          string
	leaf           bool              // the table is Leaf's
	options        map[string]string // of the dialect
	patience       time.Duration
}

// lockWait is how long a server waits for another session's lock on a row: it answers before patience is over.
func (t *target) lockWait() time.Duration { return t.patience / 3 }

// Schemes are those of URLs.
func Schemes() (names []string) {
	for i := range dialects {
		names = append(names, dialects[i].schemes...)
	}
	return names
}

// plainTable is a name that needs no quotes, in either kind of database; a schema may come first.
var plainTable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)
})

// parse returns what the settings say, or everything that is wrong with them, as an error of package problem.
// No error repeats what may be a password.
func (c Config) parse() (*target, error) {
	var problems problem.List
	wrong := func(format string, args ...any) { problems.Add("URL", format, args...) }
	u, err := endpoint.Split(c.URL)
	i := slices.IndexFunc(dialects, func(d dialect) bool { return slices.Contains(d.schemes, u.Scheme) })
	if i < 0 {
		wrong("%s://USER@HOST:PORT/DATABASE allowed", strings.Join(Schemes(), "://..., "))
		return nil, problems.Err()
	}
	t := &target{kind: &dialects[i], user: u.User, password: u.Password, table: defaultTable, options: map[string]string{},
		patience: cmp.Or(c.limit, patience)}
	endpoint.CheckPassword(u.Password, c.PasswordFile, &problems)
	if !u.Login { // else a name may have an @
		err = u.Stray(t.kind.optionNames()...)
	}
	if err != nil {
		wrong("%w", err)
		return nil, problems.Err()
	}
	if t.user == "" {
		wrong("it names no user: %s://USER@HOST/DATABASE", u.Scheme)
	}
	if t.database, err = url.PathUnescape(u.Path); err != nil || t.database == "" || strings.Contains(t.database, "/") {
		wrong("it names no database: %s://USER@HOST/DATABASE", u.Scheme)
	}
	socket := u.DefaultHost("socket")
	switch hosts, errs := u.Addresses(t.kind.port); {
	case len(u.Hosts) > 1:
		wrong("it names several hosts: one is allowed")
	case errs != nil:
		wrong("%w", errs[0])
	default:
		t.host, t.port, _ = net.SplitHostPort(hosts[0])
	}
	if socket {
		t.host = ""
	}
	t.readQuery(u.Query, wrong)
	if socket != (t.socket != "") {
		wrong("a host or ?socket=PATH is needed, one of the two")
	}
	return t, problems.Err()
}

func (t *target) readQuery(query string, wrong func(string, ...any)) {
	values, err := url.ParseQuery(query)
	if err != nil {
		wrong("the query after ? cannot be read")
	}
	if t.leaf = values.Has("layout"); t.leaf {
		t.table = leafTable
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name][len(values[name])-1]
		switch allowed, known := t.kind.options[name]; {
		case name == "table":
			if t.table = value; !plainTable().MatchString(value) {
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
			wrong("unknown option %s: %s", name, strings.Join(t.kind.optionNames(), ", "))
		case allowed != nil && !slices.Contains(allowed, value):
			wrong("%s=%s: %s allowed", name, value, strings.Join(allowed, ", "))
		default:
			t.options[name] = value
		}
	}
}

// String names the table as messages do: without the user.
func (t *target) String() string {
	at := t.socket
	if t.host != "" {
		at = net.JoinHostPort(t.host, t.port)
	}
	return "table " + t.table + " in database " + t.database + " of " + t.kind.name + " at " + at
}

// Validate returns what is wrong with the settings, see workerid.SettingErrors. It does no I/O.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

// Leaf reports whether the table is Leaf's.
func (c Config) Leaf() bool {
	t, err := c.parse()
	return err == nil && t.leaf
}

// ReadSecrets reads the files that the Config names. Its error has the same form as Validate's.
func (c Config) ReadSecrets() error {
	var problems problem.List
	t, err := c.parse()
	if err != nil {
		return nil // Validate says so
	}
	problems.Include("", endpoint.Target{PasswordFile: c.PasswordFile}.ReadSecrets(nil))
	if _, err := t.kind.connector(t, ""); err != nil { // reads the certificates, and does not connect
		problems.Add("URL", "%w", err)
	}
	return problems.Err()
}
