package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// leaseOptions are the flags that only `katsubushi lease` has.
type leaseOptions struct {
	json, all bool
	how       string
}

// Of which verb a flag is that only one verb has.
var leaseVerbOf = map[string]string{"how": "init", "all": "list"}

// leaseReads has the daemon's flags that a verb reads, beside those that reach the store. The rest is
// accepted, so that an operator may repeat a daemon's command line.
var leaseReads = map[string][]string{
	"init":        {"min-worker-id", "max-worker-id", "lease", "max-skew"},
	"restored":    {"max-skew"},
	"reset-clock": {"max-skew"},
}

var reachStore = []string{"store", "redis", "store-password-file", "store-ca", "store-cert", "store-key",
	"redis-password-file", "config"}

// leaseHelp prints what one verb does and the flags that it reads; without a verb, all verbs.
func leaseHelp(verb string, fs *flag.FlagSet, w io.Writer) {
	if !slices.Contains(leaseVerbs, verb) {
		fmt.Fprintln(w, leaseUsage)
		fmt.Fprintln(w, "\n`katsubushi lease VERB -help` lists the flags of a verb.")
		return
	}
	fmt.Fprintf(w, "usage: katsubushi lease VERB -store URL [flags]\n%s\nFlags:\n\n", usageOf(verb))
	own, daemons := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError)
	reads := slices.Concat(reachStore, leaseReads[verb])
	if verb == "init" {
		reads = append(reads, flagsOfTopic(topicLayout)...)
	}
	fs.VisitAll(func(f *flag.Flag) {
		if of := leaseVerbOf[f.Name]; f.Name == "json" || of != "" && of == verb {
			describe(own, f)
		} else if slices.Contains(reads, f.Name) {
			describe(daemons, f)
		}
	})
	own.SetOutput(w)
	own.PrintDefaults()
	flagsOf(daemons, w)
}

// usageOf returns the lines about a verb in leaseUsage.
func usageOf(verb string) string {
	var b strings.Builder
	mine := false
	for line := range strings.Lines(leaseUsage + "\n") {
		if words := strings.Fields(line); !strings.HasPrefix(line, "   ") { // not the continuation of another
			mine = strings.HasPrefix(line, "  ") && words[0] == verb
		}
		if mine {
			b.WriteString(line)
		}
	}
	return b.String()
}

// foreignToVerb returns an error for each flag given that only another verb has, and for -worker-id, which
// who writes it takes for a pool of one.
func foreignToVerb(verb string, fs *flag.FlagSet) (problems []error) {
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "worker-id" {
			problems = append(problems,
				errors.New("-worker-id: a pool has those from -min-worker-id to -max-worker-id; `lease release` takes one "+
					"without a flag"))
		}
		if of := leaseVerbOf[f.Name]; of != "" && of != verb {
			problems = append(problems, fmt.Errorf("-%s: only `lease %s` has it", f.Name, of))
		}
	})
	return problems
}
