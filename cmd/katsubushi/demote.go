package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

const demoteIntro = `asks the daemons that lead sequences with order=strict to hand them over to others. -counters and -counters-password-file mean the same as for
the daemons. usage:
  katsubushi demote all          every group, of the whole fleet
  katsubushi demote GROUP        one of the groups 0 to 31; name show NAME prints the group of a name
  katsubushi demote HOST:PORT    all groups of one daemon, for example before you take its host away
`

// demoteTimeout is how long demote waits: longer than a daemon needs to notice that another one is dead.
const demoteTimeout = 10 * time.Second

// demote hands leadership over, and says who leads afterwards. It leaves its wish in the store, so it runs on
// any host.
func demote(p *call) int {
	which := strings.Join(p.words, " ")
	if which == "" {
		p.problem("demote: give all, a GROUP or HOST:PORT. Without an argument it used to mean all")
	} else if err := stores.CheckGroups(which); err != nil && len(p.words) == 1 {
		p.problem("demote: %w", err)
	}
	p.report("Counters.", p.Counters.Validate(), p.Counters.ReadSecrets())
	if !p.Counters.Elects() {
		p.problem("demote: %w", stores.ErrNoElection)
	}
	if p.refused() {
		return exitUsage
	}
	p.warn(p.stderr)
	store, err := p.Counters.Open()
	if err != nil {
		return p.fail(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), demoteTimeout)
	defer cancel()
	done, err := stores.HandOver(ctx, store.(stores.Elector), which)
	for _, h := range done {
		fmt.Fprintf(p.stdout, "group %d: from %s to %s\n", h.Group, h.From, h.To)
	}
	if err != nil {
		return p.fail(err)
	}
	recorded(p.stderr, p.Counters.Where())
	return exitOK
}
