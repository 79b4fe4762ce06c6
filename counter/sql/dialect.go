package sql

import (
	"context"
	databasesql "database/sql"
	"database/sql/driver"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// patience is how long a server may take for an answer before the connection is closed. Calls end
// earlier, with their contexts.
const patience = 6 * time.Second

// A dialect is what differs between databases.
type dialect struct {
	name     string
	schemes  []string
	port     int
	options  map[string][]string // what may follow ? in a URL, with the values allowed; nil = any
	create   string              // the statement that makes a table; {TABLE} stands for its name
	numbered bool                // parameters are $1, $2, ..., not ?
	// condition is an expression whose value is "" or one of the conditions below. {TABLE}
	// stands for the table's name, {NAME} for that without its schema, {SCHEMA} for an expression of that
	condition string
	digest    string // an expression of {TAG}, from 0 to 2^32-1
	connector func(t *target, password string) (driver.Connector, error)
	// history returns an expression that names the history of the server that evaluates it
	history func(ctx context.Context, db *databasesql.DB, t *target) (string, error)
	code    func(err error) string // of an error of the server's; empty = it has not answered
	codes   map[string]string      // by what they mean, each with spaces in between: again, ends, and the texts below
}

// noTable marks the fault of a table that is not there. createTable is its text.
const noTable = "there is no such table. This makes it:\n"

// noTable says what to do where there is no table.
func (t *target) noTable() string {
	if t.leaf {
		return "there is no such table, and ?layout=leaf is for one that Leaf has made"
	}
	return noTable + t.createTable()
}

// createTable returns the statement that makes a target's table.
func (t *target) createTable() string { return strings.ReplaceAll(t.kind.create, "{TABLE}", t.table) }

// Conditions of a server, as the SQL expressions name them. "" is a good one.
const (
	readOnly = "read-only" // a replica
	unlogged = "unlogged"  // the table does not survive a crash
	unsynced = "unsynced"  // the last commits do not
)

// Texts of faults.
const (
	deadlock   = "a deadlock with another session"
	locked     = "another session keeps the row or the table locked"
	otherTable = "the table is not one that this version made, nor Leaf's with ?layout=leaf"
	noRight    = "the user needs the rights SELECT, INSERT and UPDATE on the table"
	replica    = "this is a read-only replica, or the server takes no writes: name the primary in -counters"
	noLogin    = "the server refuses the user or the password: -counters-password-file names the file of the password"
	noDatabase = "there is no such database, or the user may not use it"
	noTLS      = "the server has no TLS: ?tls=false does without"
	noSSL      = "the server has no TLS: ?sslmode=disable does without"
	full       = "the server has no connection left"
)

var dialects = []dialect{postgres, mysql}

func (d *dialect) optionNames() []string {
	return append([]string{"table", "layout", "socket"}, slices.Sorted(maps.Keys(d.options))...)
}

// What codes of errors mean besides texts of faults.
const (
	again = "again" // nothing was written, because another daemon wrote: try again
	ends  = "ends"  // the server ends or starts, or the context has ended: what was asked may have been done
)

// A fault is what an error of a server means.
type fault struct {
	answered bool   // the server refused the statement
	again    bool   // see there
	text     string // what it is; empty = the error's own text says it
}

// explain says what an error means.
func (d *dialect) explain(err error) (f fault) {
	code := d.code(err)
	f.answered = code != ""
	for what, codes := range d.codes {
		switch {
		case !slices.Contains(strings.Fields(codes), code):
		case what == ends:
			f.answered = false
		case what == again:
			f.again = true
		default:
			f.text = what
		}
	}
	return f
}

// temporary reports whether a daemon that starts may wait for the fault to end.
func (f fault) temporary() bool {
	return f.text == replica || f.text == full || f.text == locked || f.text == deadlock
}

// statements are those of one table on one server.
type statements struct {
	row, all, state, insert, update string

	replace string // a row that is damaged; empty = there is none
}

const (
	fields = "name, start_value, step_size, step_offset, max_value, block_size, next_value, floor_value, retired, " +
		"token, history"
	marks = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
)

// statements returns those for a target whose server names its history by an expression.
func (d *dialect) statements(t *target, history string) *statements {
	schema, bare, ok := strings.Cut(t.table, ".")
	if schema = "'" + schema + "'"; !ok {
		schema, bare = "DATABASE()", t.table
	}
	write := func(s string) string {
		s = strings.NewReplacer("{HISTORY}", history, "{CONDITION}", d.condition, "{DIGEST}", d.digest).Replace(s)
		s = strings.NewReplacer("{TAG}", tag, "{TABLE}", t.table, "{NAME}", bare, "{SCHEMA}", schema).Replace(s)
		if d.numbered {
			s = number(s)
		}
		return s
	}
	if t.leaf {
		return leafStatements(write)
	}
	return &statements{
		row:    write("SELECT {HISTORY}, {CONDITION}, " + fields + " FROM {TABLE} WHERE name = ?"),
		all:    write("SELECT {HISTORY}, {CONDITION}, " + fields + " FROM {TABLE} ORDER BY name"),
		state:  write("SELECT {HISTORY}, {CONDITION}, count(*), coalesce(sum(revision), 0) FROM {TABLE}"),
		insert: write("INSERT INTO {TABLE} (" + fields + ", revision) VALUES (" + marks + ", 1)"),
		update: write("UPDATE {TABLE} SET next_value = ?, floor_value = ?, retired = ?, token = ?, history = ?, revision " +
			"= revision + ? " +
			"WHERE name = ? AND token = ? AND {HISTORY} = ?"),
		replace: write("UPDATE {TABLE} SET start_value = ?, step_size = ?, step_offset = ?, max_value = ?, " +
			"block_size = ?, next_value = ?, floor_value = ?, retired = ?, token = ?, history = ?, " +
			"revision = revision + 1 WHERE name = ? AND coalesce(token, '') = ? AND {HISTORY} = ?"),
	}
}

// number replaces ? by $1, $2 and so on.
func number(s string) string {
	var b strings.Builder
	parts := strings.Split(s, "?")
	for i, p := range parts {
		b.WriteString(p)
		if i < len(parts)-1 {
			b.WriteString("$")
			b.WriteString(strconv.Itoa(i + 1))
		}
	}
	return b.String()
}
