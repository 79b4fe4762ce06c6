package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

const userUsage = `-auth-file FILE, or -counters etcd://... and -counters-password-file, are the daemon's; daemons follow within a second. usage:
  katsubushi user add NAME [RIGHTS]...      a user who logs in with a password
  katsubushi user password NAME             another password; open connections stay
  katsubushi user token NAME [RIGHTS]...    a user who logs in with a token, or another token; it is printed once
  katsubushi user grant NAME RIGHTS...      more rights
  katsubushi user revoke NAME RIGHTS...     fewer: each PATTERN as it was granted
  katsubushi user remove NAME               open connections are closed
                                            revoke and remove leave a user with admin on *, unless -force is given
  katsubushi user list [-json]
RIGHTS is PATTERN=RIGHT,RIGHT such as 'orders*=get,incr': keys with * for any text, and get, incr or admin. What nothing permits is denied.
The password is asked for on the terminal, or read from -password-file FILE or standard input; -generate makes one and prints it.`

// userVerbs has how many words follow each verb, and whether it reads a password.
var userVerbs = map[string]struct {
	least, most int
	password    bool
}{
	"add": {1, 1 + users.MaxGrants, true}, "password": {1, 1, true}, "token": {1, 1 + users.MaxGrants, false},
	"grant": {2, 1 + users.MaxGrants, false}, "revoke": {2, 1 + users.MaxGrants, false}, "remove": {1, 1, false},
	"list": {0, 0, false},
}

// A userCommand is a call of `katsubushi user`.
type userCommand struct {
	verb, name   string
	rights       users.Rights
	passwordFile string
	generate     bool
	json         bool
	force        bool

	store          users.Store
	stdin          *os.File
	stdout, stderr io.Writer
}

// manageUsers looks at and changes who may log in.
func manageUsers(args []string, env variables, stdin *os.File, stdout, stderr io.Writer) int {
	c := &userCommand{stdin: stdin, stdout: stdout, stderr: stderr}
	var words []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") { // flags may stand behind the words
		words, args = append(words, args[0]), args[1:]
	}
	p, fs, err := parse(settings(), args, env, func(fs *flag.FlagSet) {
		fs.StringVar(&c.passwordFile, "password-file", "", "")
		fs.BoolVar(&c.generate, "generate", false, "")
		fs.BoolVar(&c.json, "json", false, "")
		fs.BoolVar(&c.force, "force", false, "")
	})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, userUsage)
		flagsOf(fs, stdout, topicUsers)
		return exitOK
	}
	p.warn(stderr)
	p.problems = append(p.problems, c.take(append(words, p.args...))...)
	p.usersProblems()
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, userUsage)
		return exitUsage
	}
	store, closeStore, err := p.openUsers()
	if err == nil {
		defer closeStore()
		if c.store = store; !c.force {
			c.store = users.KeepAdmin(store, "-force")
		}
		err = c.run()
	}
	if err == nil && c.verb != "list" {
		recorded(stderr, p.usersIn())
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	return exitOK
}

// take parses the words, and returns everything that is wrong with them and the flags.
func (c *userCommand) take(words []string) (problems []error) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(words) == 0 {
		problem("user: the verb comes first: %s", verbList())
		return problems
	}
	c.verb, words = words[0], words[1:]
	v, ok := userVerbs[c.verb]
	switch {
	case !ok:
		problem("user %s: %s are there", c.verb, verbList())
	case len(words) < v.least || len(words) > v.most:
		problem("user %s: %d to %d words follow it, not %d", c.verb, v.least, v.most, len(words))
	case len(words) > 0:
		c.name = words[0]
		if creates := c.verb == "add" || c.verb == "token"; creates && users.CheckName(c.name) != nil {
			problem("%w", users.CheckName(c.name))
		}
		var err error
		if c.rights, err = users.ParseRights(strings.Join(words[1:], ";")); err != nil {
			problem("%w", err)
		}
	}
	if c.passwordFile != "" && !v.password {
		problem("-password-file: only add and password have it")
	}
	if c.generate && !v.password {
		problem("-generate: only add and password have it")
	}
	if c.generate && c.passwordFile != "" {
		problem("-generate and -password-file: one of the two is allowed")
	}
	if c.json && c.verb != "list" {
		problem("-json: only list has it")
	}
	if c.force && c.verb != "revoke" && c.verb != "remove" {
		problem("-force: only revoke and remove have it")
	}
	return problems
}

func userVerbNames() []string { return slices.Sorted(maps.Keys(userVerbs)) }

func verbList() string { return strings.Join(userVerbNames(), ", ") }

// shared reports whether the daemon with these settings has its users in the counter store.
func (p *parsed) shared() bool { return p.Users != "" || p.AuthFile == "" }

// usersProblems adds what is wrong with the settings about where users are.
func (p *parsed) usersProblems() {
	switch {
	case p.Users != "" && p.Users != "counters":
		p.problems = append(p.problems, fmt.Errorf("%s=%s: counters allowed", p.names["Users"], p.Users))
	case !p.shared():
	case p.Counters.Validate() == nil && !p.Counters.KeepsUsers():
		p.problems = append(p.problems,
			errors.New("user: -auth-file FILE says where users are, or -counters the etcd that keeps them"))
	default:
		p.report("Counters.", p.Counters.Validate(), p.Counters.ReadSecrets())
	}
}

// usersIn returns where users are.
func (p *parsed) usersIn() string {
	if p.shared() {
		return p.Counters.Where()
	}
	return p.AuthFile
}

// openUsers opens the store of the users.
func (p *parsed) openUsers() (s users.Store, close func() error, err error) {
	if !p.shared() {
		return users.NewFile(p.AuthFile), func() error { return nil }, nil
	}
	store, err := p.Counters.Open()
	if err != nil {
		return nil, nil, err
	}
	return users.NewShared(store.(users.Keys)), store.Close, nil
}

func (c *userCommand) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), generatorTimeout)
	defer cancel()
	switch c.verb {
	case "add", "password":
		u := users.User{Name: c.name, Rights: c.rights}
		if err := c.checkName(ctx); err != nil { // before a password is asked for
			return err
		}
		password, err := c.password()
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // the terminal took its time
			ctx, cancel = context.WithTimeout(context.Background(), generatorTimeout)
			defer cancel()
		}
		if u, err = u.WithPassword(password); err != nil {
			return err
		}
		if c.verb == "password" {
			err = c.replace(ctx, u)
		} else {
			err = users.Add(ctx, c.store, u)
		}
		if err == nil && c.generate {
			fmt.Fprintf(c.stdout, "%s\n", password)
		}
		return err
	case "token":
		u, token, err := users.User{Name: c.name, Rights: c.rights}.WithToken()
		if err != nil {
			return err
		}
		if err := c.put(ctx, u); err != nil {
			return err
		}
		fmt.Fprintln(c.stdout, token)
		return nil
	case "grant":
		return users.Change(ctx, c.store, c.name, func(r users.Rights) (users.Rights, error) { return r.Plus(c.rights) })
	case "revoke":
		return users.Change(ctx, c.store, c.name, func(r users.Rights) (users.Rights, error) { return r.Minus(c.rights) })
	case "remove":
		return users.Remove(ctx, c.store, c.name)
	default:
		return c.list(ctx)
	}
}

// checkName returns an error if there is a user of the name and should not be, or the other way round.
func (c *userCommand) checkName(ctx context.Context) error {
	return c.store.Update(ctx, c.name, func(old *users.User) (*users.User, error) {
		switch {
		case c.verb == "add" && old != nil:
			return old, users.ExistsError(c.name)
		case c.verb == "password" && old == nil:
			return nil, users.MissingError(c.name)
		}
		return old, nil
	})
}

// replace gives the user another secret, and leaves the rights.
func (c *userCommand) replace(ctx context.Context, u users.User) error {
	return c.store.Update(ctx, c.name, func(old *users.User) (*users.User, error) {
		if old == nil {
			return nil, users.MissingError(c.name)
		}
		u.Rights = old.Rights
		return &u, nil
	})
}

// put adds a user, or gives an existing one another secret and more rights.
func (c *userCommand) put(ctx context.Context, u users.User) error {
	return c.store.Update(ctx, c.name, func(old *users.User) (*users.User, error) {
		if old == nil {
			return &u, nil
		}
		rights, err := old.Rights.Plus(c.rights)
		u.Rights = rights
		return &u, err
	})
}

// password reads the new password. It never is an argument: those are seen by everybody on the host.
func (c *userCommand) password() ([]byte, error) {
	switch fd := int(c.stdin.Fd()); {
	case c.generate:
		return []byte(rand.Text()), nil
	case c.passwordFile != "":
		p, err := secretfile.Password(c.passwordFile)
		return []byte(p), err
	case term.IsTerminal(fd):
		fmt.Fprintf(c.stderr, "password of %s: ", c.name)
		first, err := term.ReadPassword(fd)
		fmt.Fprint(c.stderr, "\nonce more: ")
		second, err2 := term.ReadPassword(fd)
		fmt.Fprintln(c.stderr)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if string(first) != string(second) {
			return nil, errors.New("the two are not the same: nothing was changed")
		}
		return first, nil
	default:
		line, err := bufio.NewReader(io.LimitReader(c.stdin, users.MaxPassword+3)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return []byte(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")), nil
	}
}

func (c *userCommand) list(ctx context.Context) error {
	list, err := users.List(ctx, c.store)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("there are no users")
	}
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	if !c.json {
		fmt.Fprintln(table, "NAME\tLOGIN\tRIGHTS")
	}
	for _, u := range list {
		if c.json {
			json.NewEncoder(c.stdout).Encode(u)
		} else {
			fmt.Fprintf(table, "%s\t%s\t%s\n", u.Name, u.Login, u.Rights)
		}
	}
	return nil
}
