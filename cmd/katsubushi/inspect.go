package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"

	takeapart "github.com/katsubushi/katsubushi/v3/internal/inspect"
)

// inspect prints what ids are made of, one line each.
func inspect(args []string, env variables, stdout, stderr io.Writer) int {
	var asJSON bool
	p, fs, err := parse(layoutSettings(), args, env, func(fs *flag.FlagSet) {
		fs.BoolVar(&asJSON, "json", false, "print one JSON object for each id")
	})
	if err == nil {
		err = errors.Join(p.problems...)
	}
	if err == nil && len(p.args) == 0 {
		err = errors.New("no id given")
	}
	if err != nil {
		to, code := stdout, exitOK
		if !errors.Is(err, flag.ErrHelp) {
			to, code = stderr, exitUsage
			fmt.Fprintln(to, err)
		}
		fmt.Fprintln(to, "usage: katsubushi inspect [-json] [-layout NAME] ID...")
		fs.SetOutput(to)
		fs.PrintDefaults()
		return code
	}
	code := exitOK
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "ID\tTIME\tWORKER ID\tSEQUENCE\tKIND")
	}
	for _, s := range p.args {
		x, err := takeapart.TakeApart(s, p.Layout)
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "%s: %v\n", s, err)
			code = exitUsage
		case asJSON:
			json.NewEncoder(stdout).Encode(x)
		case x.Time == nil:
			fmt.Fprintf(table, "%s\t-\t-\t-\t%s: random\n", s, x.Kind)
		default:
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", s, x.Time.Format(millisecond), *x.WorkerID, *x.Sequence, x.Kind)
		}
	}
	table.Flush()
	return code
}
