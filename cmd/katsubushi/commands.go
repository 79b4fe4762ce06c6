package main

import (
	"io"
	"os"
	"slices"
	"strings"
)

// A subcommand is what the first argument may name. The table is the one place that knows them all:
// dispatch, -help, the manual page and shell completion read it.
type subcommand struct {
	name     string
	synopsis string // what may follow the name
	help     string
	verbs    []string
	run      func(args []string, env variables, stdout, stderr io.Writer) int
}

// commands returns the subcommands, those that people need first at the beginning.
func commands() []subcommand {
	return []subcommand{
		{"check-config", "[flags]", "say everything that is wrong with the settings, and do not serve", nil, checkConfig},
		{"inspect", "[-json] ID...", "take ids apart", nil, inspect},
		{"healthcheck", "[-ready]", "ask the daemon on this host whether it lives (or issues ids)", nil, healthcheck},
		{"state", "VERB", "inspect and repair the files that record windows", []string{"show", "adopt", "reset"}, state},
		{"lease", "VERB -store URL", "inspect and repair a pool of worker ids in a store", leaseVerbs, lease},
		{"generator", "VERB ...", "sequences", generatorVerbNames(), generators},
		{"user", "VERB ...", "who may log in", userVerbNames(), manageUsersHere},
		{"demote", "all|GROUP|HOST:PORT", "sequences in strict order: have them led by another daemon", nil, demote},
		{"upgrade", "[-pid N] [-timeout 1m]", "replace a running daemon by the program that is installed now, without a gap",
			nil, upgradeDaemon},
		{"run", "-store URL -- COMMAND", "lease a worker id for another program, and run it", nil, runProgram},
		{"completion", "bash|zsh|fish", "print the shell's completion of this program", shellNames(), completion},
		{"man", "", "print the manual page", nil, manual},
	}
}

func (c subcommand) called() string { return c.name }

// subcommandNamed returns a subcommand, or nil.
func subcommandNamed(name string) *subcommand {
	all := commands()
	if i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

func manageUsersHere(args []string, env variables, stdout, stderr io.Writer) int {
	return manageUsers(args, env, os.Stdin, stdout, stderr)
}

// spoken lists words as a sentence does.
func spoken(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
