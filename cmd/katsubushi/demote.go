package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

const demoteUsage = `asks the daemons that lead sequences with order=strict to hand them over to others. -counters and -counters-password-file are theirs. usage:
  katsubushi demote all          every group, of the whole fleet
  katsubushi demote GROUP        one of the groups 0 to 15 that names are divided into; generator show NAME has it
  katsubushi demote HOST:PORT    all groups of one daemon, for example before its host is taken away`

// demoteTimeout is how long demote waits: longer than a daemon needs to notice that another one is dead.
const demoteTimeout = 10 * time.Second

// demote hands leadership over, and says who leads afterwards. It leaves its wish in the store, so it runs on
// any host.
func demote(args []string, env variables, stdout, stderr io.Writer) int {
	which := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' { // flags may stand behind the word
		which, args = args[0], args[1:]
	}
	p, _, err := parse(settings(), args, env, func(*flag.FlagSet) {})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, demoteUsage)
		return exitOK
	}
	p.warn(stderr)
	if len(p.args) > 0 && which == "" {
		which, p.args = p.args[0], p.args[1:]
	}
	switch {
	case len(p.args) > 0:
		p.problems = append(p.problems,
			fmt.Errorf("demote: one word follows it, all, a GROUP or HOST:PORT, not %q too", p.args))
	case which == "":
		p.problems = append(p.problems, errors.New("demote: what should be handed over? "+
			"A script that wants every group of the fleet, as demote without a word meant before, says demote all"))
	}
	p.report("Counters.", p.Counters.Validate(), p.Counters.ReadSecrets())
	if !p.Counters.Elects() {
		p.problems = append(p.problems, fmt.Errorf("demote: %w", stores.ErrNoElection))
	}
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, demoteUsage)
		return exitUsage
	}
	store, err := p.Counters.Open()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), demoteTimeout)
	defer cancel()
	done, err := stores.HandOver(ctx, store.(stores.Elector), which)
	for _, h := range done {
		fmt.Fprintf(stdout, "group %d: from %s to %s\n", h.Group, h.From, h.To)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	recorded(stderr, p.Counters.Where())
	return exitOK
}
