package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

const (
	userIntro = "-auth-file FILE, or -counters etcd://... and -counters-password-file, mean the same as for the daemon; " +
		"daemons follow within a second. usage:\n"
	userOutro = "RIGHTS is PATTERN=RIGHT,RIGHT such as 'orders*=get,incr': keys with * for any text, and get, incr or " +
		"admin. Users may do only what a right permits.\nThe command asks for the password on the terminal, or reads it " +
		"from -password-file FILE or standard input; -generate makes one and prints it.\n"
)

func userVerbs() []verb {
	type c = *userCommand
	const most = 1 + users.MaxGrants
	return []verb{
		{synopsis: "add NAME [RIGHTS]...", text: "add a user who logs in with a password", least: 1, most: most,
			run: inUsers(c.add)},
		{synopsis: "password NAME", text: "change the password; open connections stay", least: 1, most: 1,
			run: inUsers(c.changePassword)},
		{synopsis: "token NAME [RIGHTS]...", least: 1, most: most, run: inUsers(c.token),
			text: "add a user who logs in with a token, or change the token; it is printed once"},
		{synopsis: "grant NAME RIGHTS...", text: "add rights", least: 2, most: most, run: inUsers(c.grant)},
		{synopsis: "revoke NAME RIGHTS...", text: "take rights away: each PATTERN as it was granted", least: 2, most: most,
			run: inUsers(c.revoke)},
		{synopsis: "remove NAME", least: 1, most: 1, run: inUsers(c.remove),
			text: "remove the user and close its connections\n" +
				"revoke and remove keep one user with admin on *, unless -force is given"},
		{synopsis: "list [-json]", reads: true, run: inUsers(c.list)},
	}
}

// A userCommand is a call of `katsubushi user`.
type userCommand struct {
	*call
	name   string
	rights users.Rights
	store  users.Store
}

// inUsers makes a verb that looks at or changes who may log in.
func inUsers(do func(*userCommand, context.Context) error) func(*call) int {
	return func(a *call) int {
		c := &userCommand{call: a}
		c.parseWords()
		c.usersProblems()
		if c.refused() {
			return exitUsage
		}
		c.warn(c.stderr)
		store, closeStore, err := c.openUsers()
		if err != nil {
			return c.fail(err)
		}
		defer closeStore()
		if c.store = store; !c.force {
			c.store = users.KeepAdmin(store, "-force")
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := do(c, ctx); err != nil {
			return c.fail(err)
		}
		if !c.verb.reads {
			recorded(c.stderr, c.usersIn())
		}
		return exitOK
	}
}

// parseWords parses the name and the rights, and notes what is wrong with them and the flags.
func (c *userCommand) parseWords() {
	if c.counted() && len(c.words) > 0 {
		c.name = c.words[0]
		if creates := c.verb.called() == "add" || c.verb.called() == "token"; creates && users.CheckName(c.name) != nil {
			c.problem("%w", users.CheckName(c.name))
		}
		var err error
		if c.rights, err = users.ParseRights(strings.Join(c.words[1:], ";")); err != nil {
			c.problem("%w", err)
		}
	}
	if c.generate && c.passwordFile != "" {
		c.problem("-generate and -password-file: one of the two is allowed")
	}
}

// shared reports whether the daemon with these settings has its users in the counter store.
func (p *parsed) shared() bool { return p.Users != "" || p.AuthFile == "" }

// usersInCounters is what -auth-store may be.
const usersInCounters = "counters"

// usersProblems adds what is wrong with the settings about where users are.
func (p *parsed) usersProblems() {
	switch {
	case p.Users != "" && p.Users != usersInCounters:
		p.problems = append(p.problems, fmt.Errorf("%s=%s: %s", p.names["Users"], p.Users,
			problem.Allowed(usersInCounters)))
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
	p.Counters.Operator = true
	store, err := p.Counters.Open()
	if err != nil {
		return nil, nil, err
	}
	return users.NewShared(store.(users.Keys)), store.Close, nil
}

func (c *userCommand) add(ctx context.Context) error {
	return c.withPassword(ctx, func(old *users.User) error {
		if old != nil {
			return users.ExistsError(c.name)
		}
		return nil
	}, users.Add)
}

func (c *userCommand) changePassword(ctx context.Context) error {
	return c.withPassword(ctx, func(old *users.User) error {
		if old == nil {
			return users.MissingError(c.name)
		}
		return nil
	}, replace)
}

// withPassword asks for a password and puts the user with it into the store, if check finds nothing wrong with the one
// of this name, or with none.
func (c *userCommand) withPassword(ctx context.Context, check func(old *users.User) error,
	put func(context.Context, users.Store, users.User) error) error {
	err := c.store.Update(ctx, c.name, func(old *users.User) (*users.User, error) { return old, check(old) })
	if err != nil { // before a password is asked for
		return err
	}
	password, err := c.password()
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the terminal took its time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
	}
	u, err := users.User{Name: c.name, Rights: c.rights}.WithPassword(password)
	if err != nil {
		return err
	}
	if err = put(ctx, c.store, u); err == nil && c.generate {
		fmt.Fprintf(c.stdout, "%s\n", password)
	}
	return err
}

func (c *userCommand) token(ctx context.Context) error {
	u, token, err := users.User{Name: c.name, Rights: c.rights}.WithToken()
	if err != nil {
		return err
	}
	if err := c.put(ctx, u); err != nil {
		return err
	}
	fmt.Fprintln(c.stdout, token)
	return nil
}

func (c *userCommand) grant(ctx context.Context) error {
	return users.Change(ctx, c.store, c.name, func(r users.Rights) (users.Rights, error) { return r.Plus(c.rights) })
}

func (c *userCommand) revoke(ctx context.Context) error {
	return users.Change(ctx, c.store, c.name, func(r users.Rights) (users.Rights, error) { return r.Minus(c.rights) })
}

func (c *userCommand) remove(ctx context.Context) error { return users.Remove(ctx, c.store, c.name) }

// replace gives the user another secret, and leaves the rights.
func replace(ctx context.Context, store users.Store, u users.User) error {
	return store.Update(ctx, u.Name, func(old *users.User) (*users.User, error) {
		if old == nil {
			return nil, users.MissingError(u.Name)
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
			return nil, errors.New("the two passwords differ: nothing was changed")
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
