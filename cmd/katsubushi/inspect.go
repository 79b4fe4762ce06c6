package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	takeapart "github.com/katsubushi/katsubushi/v3/internal/inspect"
)

// inspect prints what ids are made of, one line each.
func inspect(c *call) int {
	if c.refused() {
		return exitUsage
	}
	code := exitOK
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if !c.json {
		fmt.Fprintln(table, "ID\tTIME\tWORKER ID\tSEQUENCE\tKIND")
	}
	for _, s := range c.words {
		x, err := takeapart.TakeApart(s, c.Layout)
		if x.Excess {
			fmt.Fprintf(c.stderr, "warning: %s has more bits than ids of this layout\n", s)
		}
		switch {
		case err != nil:
			fmt.Fprintf(c.stderr, "%s: %v\n", s, err)
			code = exitUsage
		case c.json:
			json.NewEncoder(c.stdout).Encode(x)
		case x.Time == nil:
			fmt.Fprintf(table, "%s\t-\t-\t-\t%s: random\n", s, x.Kind)
		default:
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", s, x.Time.Format(millisecond), *x.WorkerID, *x.Sequence, x.Kind)
		}
	}
	table.Flush()
	return code
}
