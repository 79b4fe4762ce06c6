//go:build linux

package sql

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// TestScripts plays what becomes of sequences in databases. Beside the calls of countertest.Stage:
//
//	server [WORDS]        a server of this section alone; it listens at PORT too, if that is one of the words
//	table [leaf]          where the sequences are, which SQL calls $TABLE
//	sql STATEMENT         what it prints; "postgresql STATEMENT" and "mariadb STATEMENT" are for one of them
//	password hush         what is in the file of passwords
//	open a [operator] [secret] [safe] [replica] [hasty] [old/new ...]   a store, as the role secret, with Lax off, or
//	                      with a daemon's limits; old/new = what is another text in its URL
//	obey                  runs the statement that the last answer ended with
//	kill, launch [WORDS], pause, resume
//	replica, sever        a replica, and its end as one; "at replica STATEMENT" runs there
//	promote               it becomes the server that the address is of
//	lock, unlock          another session keeps the table locked
//	a asks QUESTION       in a session of the store
//	a dies                its sessions end
//	a writes [history] [token] [was] [damaged]   over a row of orders that had another one, or over one
//	that seemed damaged
func TestScripts(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		script.RunAs(t, "testdata/tables.script", db.kind, func(t *testing.T, play func(script.Do)) {
			f := &fleet{Stage: countertest.NewStage(t), t: t, db: db, file: filepath.Join(t.TempDir(), "password")}
			f.Full, f.Words[f.file] = true, "FILE"
			play(f.do)
		})
	})
}

// A fleet is what a script has begun.
type fleet struct {
	*countertest.Stage
	t         *testing.T
	db        database
	replica   *sqltest.Server
	url, file string // of the table; of passwords
	port      string
	last      string // answer
	unlock    func() error
}

// histories are those of servers.
var histories = regexp.MustCompile(`history \S+, and the server's is \S+:`)

func (f *fleet) do(words []string) string {
	f.last = f.command(words, strings.ReplaceAll(strings.Join(words[1:], " "), "$TABLE", nameOf(f.url)))
	return histories.ReplaceAllString(f.Constant(f.last), "history A, and the server's is B:")
}

func (f *fleet) command(words []string, rest string) string {
	switch words[0] {
	case "server":
		f.port = strconv.Itoa(redistest.FreePort(f.t))
		args := strings.Fields(strings.ReplaceAll(rest, "PORT", f.port))
		if f.db.kind == "mariadb" {
			f.db = mariaAt(sqltest.MariaDB(f.t, args...))
		} else {
			f.db = postgresAt(sqltest.Postgres(f.t, args...))
			f.db.socket = f.t.TempDir()
			f.point(f.db.Server)
		}
	case "table":
		if f.url = f.db.table(f.t); rest == "leaf" {
			f.url = f.db.leafTable(f.t, "")
		}
		f.Words[nameOf(f.url)], f.Words[f.db.socket], f.Words["127.0.0.1:"+f.port] = "TABLE", "SOCKET", "HOST"
	case "sql", f.db.kind:
		return f.db.Do(f.t, rest)
	case "obey":
		_, statement, _ := strings.Cut(f.last, "This makes it:\n")
		return f.db.Do(f.t, statement)
	case "postgresql", "mariadb":
	case "password":
		return countertest.Said("", os.WriteFile(f.file, []byte(rest+"\n"), 0o600))
	case "open":
		f.Stores[words[1]] = f.open(words[2:])
	case "kill", "pause", "resume":
		map[string]func(){"kill": f.db.Kill, "pause": f.db.Pause, "resume": f.db.Resume}[words[0]]()
	case "launch":
		f.db.Launch(f.t, words[1:]...)
	case "replica":
		f.replica = f.db.Replica(f.t)
		f.Words[f.replica.Socket] = "REPLICA"
	case "sever":
		f.replica.Sever(f.t)
	case "promote":
		f.replica.Promote(f.t)
		f.point(f.replica)
	case "at":
		return f.replica.Do(f.t, strings.TrimPrefix(rest, "replica "))
	case "lock":
		tx, err := open(f.t, f.url).d.db.Begin()
		if err == nil {
			_, err = tx.Exec("UPDATE " + nameOf(f.url) + " SET revision = revision + 1")
		}
		f.unlock = tx.Rollback
		return countertest.Said("", err)
	case "unlock":
		return countertest.Said("", f.unlock())
	default:
		return f.store(f.Stores[words[0]].(*Store), words)
	}
	return ""
}

// point makes a server the one of the section. Its socket can be moved, as a virtual address is.
func (f *fleet) point(s *sqltest.Server) {
	f.db.Server = s
	link := filepath.Join(f.db.socket, ".s.PGSQL.5432")
	os.Remove(link)
	err := os.Symlink(filepath.Join(s.Dir, ".s.PGSQL.5432"), link)
	if err = errors.Join(err, os.Chmod(f.db.socket, 0o755)); err != nil {
		f.t.Fatal(err)
	}
}

// open opens a Store of the table.
func (f *fleet) open(words []string) *Store {
	has := func(word string) bool { return slices.Contains(words, word) }
	c := Config{URL: f.url, Lax: !has("safe"), Operator: has("operator")}
	if has("hasty") {
		c.limit = patience
	}
	if has("secret") {
		c.URL = strings.NewReplacer("postgres@", "secret@", "root@", "secret@").Replace(c.URL)
		c.PasswordFile = f.file
	}
	if has("replica") {
		c.URL = strings.Replace(c.URL, f.db.socket, f.replica.Socket, 1)
	}
	for _, word := range words {
		word = strings.NewReplacer("HOST", "127.0.0.1:"+f.port, "SOCKET", f.db.socket).Replace(word)
		if i := strings.LastIndexByte(word, '/'); i >= 0 {
			c.URL = strings.Replace(c.URL, word[:i], word[i+1:], 1)
		}
	}
	return opened(f.t, c)
}

// store is a call that only stores in databases have.
func (f *fleet) store(s *Store, words []string) string {
	switch words[1] {
	case "asks":
		var answer string
		err := s.d.db.QueryRow(strings.Join(words[2:], " ")).Scan(&answer)
		return countertest.Said(answer, err)
	case "dies":
		return countertest.Said("", s.d.db.Close())
	case "writes":
		found, err := s.d.Load(bg, []string{"orders"})
		if err != nil {
			f.t.Fatal(err)
		}
		next, other := found[0].Entry.Copy(), *found[0].Version.(*row)
		_, err = next.Reserve(10, "new")
		switch words[2] {
		case "history":
			other.now = "another"
		case "token":
			other.Token = "another"
		default:
			other.was--
		}
		if slices.Contains(words, "damaged") {
			other.Fault = errors.New("damaged")
		}
		write := ledger.Write{Found: ledger.Found{Version: &other}, Next: next}
		_, swapped := s.d.Swap(bg, nil, []ledger.Write{write})
		again := errors.Is(swapped, ledger.ErrAgain)
		return fmt.Sprintf("again: %v %s", again, countertest.Said("", errors.Join(err, swapped)))
	}
	return f.Do(words)
}
