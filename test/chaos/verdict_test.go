//go:build chaos && linux

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// verdict prints what there was, and fails the test if it was a duplicate. The clients have ended.
func (w *world) verdict() {
	took := time.Since(w.began)
	var b strings.Builder
	fmt.Fprintf(&b, "%v of faults and recovery\n%s; KATSUBUSHI_SEED=%d\n%s\n\n", took.Round(time.Millisecond),
		w.servers.title(), w.seed, w.takeovers())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "FAULT\tTIMES\n")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Fprintf(table, "%s\t%d\n", name, w.counts[name])
		total += w.counts[name]
	}
	fmt.Fprintf(table, "all\t%d\n", total)
	if w.redis != nil && w.redis.replicas > 0 {
		fmt.Fprintf(table, "fail-overs by Sentinels\t%d\n", w.redis.failovers)
	}
	var copies, ids int64
	for _, d := range w.daemons {
		copies, ids = copies+d.copies.Load(), ids+d.ofThose.Load()
	}
	if copies > 0 {
		fmt.Fprintf(table, "copies that asked the store\t%d\nids of these\t%d\n", copies, ids)
	}
	w.unavailability(table, took)
	table.Flush()
	c := &w.census
	w.t.Logf("%s\n%v", &b, &c.ids)
	if c.ids.Duplicates() != 0 {
		w.t.Errorf("%v:\n%s", &c.ids, strings.Join(c.twice, "\n"))
	}
	if story, err := c.plant(w.began); err != nil {
		w.t.Error(err)
	} else {
		w.t.Logf("the checker noticed a duplicate that was planted: %s", story)
	}
	w.t.Logf("what happened when:\n%s", strings.Join(w.story, "\n"))
}

// unavailability tells for each daemon how long no ids came from it, and what its clients were told
// meanwhile.
func (w *world) unavailability(table *tabwriter.Writer, took time.Duration) {
	fmt.Fprintf(table, "\nDAEMON\tLANES\tIDS\tREFUSALS\tWITHOUT IDS\tLONGEST\tSHARE\n")
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	line := func(what string, g gaps) {
		fmt.Fprintf(table, "%s\t%v\t%v\t%.1f %%\n", what, ms(g.total), ms(g.longest), 100*g.total.Seconds()/took.Seconds())
	}
	for _, d := range w.daemons {
		s := &d.seen
		s.close(time.Now())
		line(fmt.Sprintf("%s\t%d\t%d\t%d", d.name, d.lanes, s.ids, s.refusals), s.without)
		for _, why := range slices.Sorted(maps.Keys(s.why)) {
			line(fmt.Sprintf("  %s\t\t%d times\t", why, s.why[why].times), s.why[why])
		}
	}
}
