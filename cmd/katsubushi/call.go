package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An ownFlag is a flag of a subcommand that is no setting.
type ownFlag struct {
	name, help string
	value      any      // a pointer: what is there before is the default
	verbs      []string // that have it; nil = all
	words      []string // that shells offer
}

// ownValues are the values of the own flags of all subcommands.
type ownValues struct {
	json, all, force, generate, ready, list, version bool
	how, mark, passwordFile, replacement             string
	pid                                              int
	timeout                                          time.Duration
	initAnswers
}

func (o *ownValues) jsonFlag(help string, verbs ...string) ownFlag {
	return ownFlag{name: "json", help: help, value: &o.json, verbs: verbs}
}

func (o *ownValues) pidFlag() ownFlag {
	return ownFlag{name: "pid", value: &o.pid, help: "`number` of the daemon's process; 0 = the only one of this host"}
}

func (o *ownValues) forceFlag(verbs ...string) ownFlag {
	return ownFlag{name: "force", value: &o.force, verbs: verbs}
}

// A call is a subcommand, and what was said behind it.
type call struct {
	*parsed
	*ownValues
	command *subcommand
	verb    verb
	words   []string // behind the verb, without flags
	least   int      // so many there must be
	most    int
	flags   *flag.FlagSet
	env     variables

	stdin          *os.File
	stdout, stderr io.Writer
}

// start reads what was said, and runs the subcommand. One whose verb is wrong is not run.
func (c *subcommand) start(args []string, env variables, stdin *os.File, stdout, stderr io.Writer) int {
	a := &call{command: c, ownValues: c.values, env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	err := a.read(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		a.help()
		return exitOK
	case a.verb.run != nil:
		return a.verb.run(a)
	case c.run != nil:
		return c.run(a)
	}
	a.refused()
	return exitUsage
}

// read takes args apart, and notes what is wrong with the words. The only error is flag.ErrHelp.
func (c *call) read(args []string) (err error) {
	if c.command.most != foreign {
		c.words, args = c.command.wordsFirst(args)
	}
	c.parsed, c.flags, err = parse(c.command.settings, args, c.env, func(fs *flag.FlagSet) {
		for _, f := range c.command.own {
			f.define(fs)
		}
	})
	c.words = append(c.words, c.args...)
	c.takeWords()
	return err
}

func (c *call) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// noVerb notes that a word is none of the verbs.
func (c *call) noVerb(word string, verbs []string) {
	c.problem("%s: no such verb: the verbs are %s", word, spoken(verbs))
}

// takeWords finds the verb, and notes what is wrong with the words and with the flags of other verbs.
func (c *call) takeWords() {
	name := c.command.name
	c.least, c.most = c.command.least, c.command.most
	if verbs := c.command.verbs; len(verbs) > 0 {
		if len(c.words) == 0 {
			c.problem("%s: no verb is given: the verbs are %s", name, spoken(names(verbs)))
			return
		}
		name += " " + c.words[0]
		i := slices.Index(names(verbs), c.words[0])
		if i < 0 {
			c.noVerb(name, names(verbs))
			return
		}
		c.verb, c.words = verbs[i], c.words[1:]
		c.least, c.most = c.verb.least, c.verb.most
	}
	if !c.counted() {
		c.problem("%s: takes %s, not %q", name, arguments(c.least, c.most), c.words)
	}
	for _, f := range c.command.own {
		given := false
		c.flags.Visit(func(g *flag.Flag) { given = given || g.Name == f.name })
		if given && !f.of(c.verb) {
			c.problem("-%s: only for %s", f.name, spoken(f.verbs))
		}
	}
}

// counted reports whether there are as many words as there must be.
func (c *call) counted() bool { return len(c.words) >= c.least && len(c.words) <= c.most }

// arguments says how many words may follow.
func arguments(least, most int) string {
	switch {
	case most == 0:
		return "no arguments"
	case least == 0 && most == 1:
		return "at most one argument"
	case least == 1 && most == 1:
		return "one argument"
	case least == most:
		return fmt.Sprintf("%d arguments", least)
	case most >= endless:
		return fmt.Sprintf("%d or more arguments", least)
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}

// spoken lists words as a sentence does.
func spoken(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// wordsFirst returns the words that args begin with, so that flags may stand behind them. A negative number is a
// word. Behind a verb, -1 at the end of args is one too.
func (s *subcommand) wordsFirst(args []string) (words, rest []string) {
	number := func(a string) bool {
		_, err := strconv.Atoi(a)
		return err == nil
	}
	n := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && !number(a) })
	if n < 0 {
		return args, nil
	}
	words, rest = slices.Clone(args[:n]), args[n:]
	if last := len(rest) - 1; last > 0 && rest[last] == "-1" && s.verbs != nil {
		rest = slices.Concat(rest[:last], []string{"--", "-1"})
	}
	return words, rest
}

// refused says everything that is wrong with the call, if anything is.
func (c *call) refused() bool {
	err := errors.Join(c.problems...)
	if err == nil {
		return false
	}
	said := errorsTo(c.stderr)
	fmt.Fprintf(said, "%v\nSee katsubushi %s -help.\n", err, c.command.name)
	c.warn(said)
	return true
}

// fail says why the subcommand could not do what it was told.
func (c *call) fail(err error) int {
	fmt.Fprintln(c.stderr, err)
	return exitFailure
}

// of reports whether a verb has the flag.
func (f *ownFlag) of(v verb) bool { return f.verbs == nil || slices.Contains(f.verbs, v.called()) }

// define adds the flag to a set.
func (f *ownFlag) define(fs *flag.FlagSet) {
	switch v := f.value.(type) {
	case *bool:
		fs.BoolVar(v, f.name, *v, f.help)
	case *string:
		fs.StringVar(v, f.name, *v, f.help)
	case *int:
		fs.IntVar(v, f.name, *v, f.help)
	case *time.Duration:
		fs.DurationVar(v, f.name, *v, f.help)
	}
}
