package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// inspected is one id taken apart; the names are those of kayac's katsubushi-dump, and the id itself.
type inspected struct {
	ID       string    `json:"id"` // a string: JavaScript's numbers hold 53 bits
	Time     time.Time `json:"time"`
	WorkerID uint64    `json:"worker_id"`
	Sequence uint64    `json:"sequence"`
}

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
		fmt.Fprintln(table, "ID\tTIME\tWORKER ID\tSEQUENCE")
	}
	for _, s := range p.args {
		id, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			fmt.Fprintf(stderr, "%s: not an id: a decimal number of at most 64 bits is one\n", s)
			code = exitUsage
			continue
		}
		parts := p.Layout.Decompose(id)
		if asJSON {
			json.NewEncoder(stdout).Encode(inspected{s, parts.Time, parts.Worker, parts.Sequence})
		} else {
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", s, parts.Time.Format(millisecond), parts.Worker, parts.Sequence)
		}
	}
	table.Flush()
	return code
}
