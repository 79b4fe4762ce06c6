package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/katsubushi/katsubushi/v3/internal/setup"
)

const initIntro = `usage: katsubushi init [flags]

Asks five questions and writes a commented -config file, with a drop-in for the systemd unit or a compose file for containers; for
Kubernetes it writes values for the Helm chart instead. Each question has a flag that answers it. Without a terminal, give all five or
-defaults. It overwrites no file and writes no password.

`

// initAnswers are the own flags of init.
type initAnswers struct {
	hosts, store, ports, tls, sequences, dir string
	defaults                                 bool
}

// flags returns the own flags of init. Those but the first two answer the questions of their names.
func (a *initAnswers) flags() []ownFlag {
	a.dir = "."
	return []ownFlag{
		{name: "dir", value: &a.dir, help: "`directory` to write to"},
		{name: "defaults", value: &a.defaults, help: "take the default answer where no flag gives one, and ask nothing"},
		{name: "hosts", value: &a.hosts, help: "`NAMES` of hosts with systemd; or compose:N, helm:N, plain:NAMES"},
		{name: "store", value: &a.store,
			help: "`URL`, and perhaps behind it the file of its password, of what leases worker ids; or none"},
		{name: "ports", value: &a.ports, help: "`PORT` for clients, and perhaps behind it the one of the page and /metrics"},
		{name: "tls", value: &a.tls, help: "`FILES` of certificate and key, with a space between; or none"},
		{name: "sequences", value: &a.sequences,
			help: "`NAMES`, and perhaps behind them the URL of where they are recorded and the file of its password; or none"},
	}
}

// questions returns the five questions, in their order.
func (a *initAnswers) questions(p *setup.Plan) []setup.Question {
	all := settings(new(options))
	port, page := defaultIn(all, "port"), defaultIn(all, "http-port")
	none := func() string { return setup.None }
	ports := func() string {
		if p.Form == setup.Compose || p.Form == setup.Helm {
			return port + " " + page
		}
		return port
	}
	return []setup.Question{
		{Name: "hosts", Answer: a.hosts, Default: ownHost, Set: p.SetHosts, Text: "1 of 5. On which hosts do daemons run? " +
			"Names, with commas between: systemd starts them.\n" +
			"compose:3 or helm:3 stands for three in containers or pods, plain:NAME for a -config file alone."},
		{Name: "store", Answer: a.store, Default: none, Set: p.SetStore, Text: "2 of 5. Which store leases worker ids? " +
			"redis://HOST, etcd://HOST or zookeeper://HOST, as for -store.\n" +
			"USER@HOST has a password, from the file that you name behind the URL. none: daemons have fixed worker ids."},
		{Name: "ports", Answer: a.ports, Default: ports, Set: p.SetPorts, Text: "3 of 5. On which port do clients ask? " +
			"A second number opens the status page, /metrics and\n" +
			"health checks to other hosts; without it they are on 127.0.0.1:" + page + " of each host. 0 closes them."},
		{Name: "tls", Answer: a.tls, Default: none, Set: p.SetTLS, Text: "4 of 5. Do clients connect with TLS? " +
			"Two files, in PEM: the certificate and its key."},
		{Name: "sequences", Answer: a.sequences, Default: none, Set: p.SetSequences, Text: "5 of 5. Which keys stand for " +
			"sequences (1, 2, 3)? Names, with commas between. Several daemons\n" +
			"record them in the store of their worker ids, or at the URL that you name behind the names."},
	}
}

// defaultIn returns the default of a setting in the table.
func defaultIn(all []setting, name string) string {
	return all[slices.IndexFunc(all, func(s setting) bool { return s.name == name })].def
}

// ownHost is the default of the hosts.
func ownHost() string {
	name, _ := os.Hostname()
	if new(setup.Plan).SetHosts(name) != nil {
		name = "localhost"
	}
	if runtime.GOOS != "linux" {
		return setup.Plain + ":" + name
	}
	return name
}

// check makes questions check an answer as the daemon would, and take back what it set if the answer is wrong.
func check(p *setup.Plan, questions []setup.Question) {
	for i := range questions {
		q := &questions[i]
		set := q.Set
		q.Set = func(answer string) error {
			before := *p
			err := set(answer)
			if err == nil && len(p.Daemons) > 0 {
				err = refusal(p.Settings(slices.MaxFunc(p.Daemons, func(a, b setup.Daemon) int { return a.WorkerID - b.WorkerID })))
			}
			if err != nil && q.Name == "sequences" && p.Counters.URL != "" && p.Counters == p.Store {
				err = fmt.Errorf("%w\nThat is the store of the worker ids: name another one behind the names", err)
			}
			if err != nil {
				*p = before
			}
			return err
		}
	}
}

// refusal returns what the daemon would say of settings, without looking at the files that they name.
func refusal(list [][2]string) error {
	var args []string
	for _, s := range list {
		args = append(args, "-"+s[0]+"="+s[1])
	}
	p, _, err := parse(settings, args, variables{"STATE_DIRECTORY": "/var/lib/katsubushi"}, nil)
	if err != nil {
		return err
	}
	p.report("", p.Validate())
	return errors.Join(p.problems...)
}

// initialize is the subcommand.
func initialize(c *call) int {
	// a signal while files are written would leave some of them behind
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	plan := &setup.Plan{HTTPPort: setup.Unsaid}
	questions := c.questions(plan)
	check(plan, questions)
	if terminal := term.IsTerminal(int(c.stdin.Fd())); !terminal || c.defaults {
		c.answerByFlags(questions)
		questions = nil
	}
	if c.refused() {
		return exitUsage
	}
	if questions != nil {
		fmt.Fprintln(c.stdout, "Enter takes the answer in [brackets]. Nothing is written before the last answer.")
		if err := setup.Ask(ctx, c.stdin, c.stdout, questions); err != nil {
			return c.fail(fmt.Errorf("%w: nothing was written", err))
		}
	}
	return c.write(plan)
}

// answerByFlags answers the questions by flags and defaults, and notes what is missing and what is wrong.
func (c *call) answerByFlags(questions []setup.Question) {
	var missing []string
	for _, q := range questions {
		if q.Answer == "" && !c.defaults {
			missing = append(missing, "-"+q.Name)
			continue
		}
		answer := cmp.Or(q.Answer, q.Default())
		if err := q.Set(answer); err != nil {
			c.problem("-%s=%s: %w", q.Name, setup.Brief(answer), err)
		}
	}
	if len(missing) > 0 {
		c.problem("%s: missing, and there is no terminal for the question; -defaults uses the default answers",
			strings.Join(missing, ", "))
	}
}

// write writes the files, and prints what follows.
func (c *call) write(plan *setup.Plan) int {
	files := plan.Files(configText, version)
	if err := setup.Write(c.dir, files); err != nil {
		return c.fail(fmt.Errorf("%w\nnothing was written", err))
	}
	var b strings.Builder
	fmt.Fprintln(&b)
	for _, f := range files {
		fmt.Fprintln(&b, "wrote", filepath.Join(c.dir, f.Path))
	}
	for _, line := range plan.Given() {
		fmt.Fprintln(&b, line)
	}
	for _, path := range plan.Secrets() {
		if _, err := os.Stat(path); err != nil {
			fmt.Fprintf(&b, "needed: %s, which only its owner may read\n", path)
		}
	}
	for _, next := range plan.Next(filepath.ToSlash(c.dir)) {
		fmt.Fprintf(&b, "\n%s\n  %s\n", next[0], next[1])
	}
	io.WriteString(c.stdout, b.String())
	return exitOK
}

// configText writes a -config file with the flags that most people need: those of list as they are set, the others as
// comments with their defaults.
func configText(list [][2]string) string {
	var b strings.Builder
	b.WriteString("# Settings of katsubushi, made by katsubushi init: flags, one per line, without the dash. " +
		"A flag or a variable beats the file.\n" +
		"# `katsubushi help all` lists all flags; `katsubushi check-config -config FILE` checks them.\n")
	all := settings(new(options))
	for _, t := range tasks {
		fmt.Fprintf(&b, "\n## %s\n", t.title)
		for _, f := range t.flags {
			name, text := f[0], f[1]
			if name == "config" || name == "version" {
				continue
			}
			fmt.Fprintf(&b, "# %s\n", text)
			set := false
			for _, s := range list {
				if s[0] == name {
					fmt.Fprintf(&b, "%s %s\n", name, s[1])
					set = true
				}
			}
			if !set {
				fmt.Fprintln(&b, strings.TrimSpace("#"+name+" "+defaultIn(all, name)))
			}
		}
	}
	return b.String()
}
