package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/generator"
)

// inspected is one id taken apart; the names are those of kayac's katsubushi-dump, and the id itself.
type inspected struct {
	ID       string    `json:"id"` // a string: JavaScript's numbers hold 53 bits
	Time     time.Time `json:"time"`
	WorkerID uint64    `json:"worker_id"`
	Sequence uint64    `json:"sequence"`
}

// inspect prints what ids are made of, one line each.
func inspect(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("katsubushi inspect", flag.ContinueOnError)
	fs.SetOutput(stderr)
	asJSON := fs.Bool("json", false, "print one JSON object for each id")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: katsubushi inspect [-json] ID...")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err == flag.ErrHelp {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if fs.NArg() == 0 {
		fs.Usage()
		return exitUsage
	}
	code := exitOK
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !*asJSON {
		fmt.Fprintln(table, "ID\tTIME\tWORKER ID\tSEQUENCE")
	}
	for _, s := range fs.Args() {
		id, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			fmt.Fprintf(stderr, "%s: not an id: a decimal number of at most 64 bits is one\n", s)
			code = exitUsage
			continue
		}
		parts := generator.Katsubushi().Decompose(id)
		if *asJSON {
			json.NewEncoder(stdout).Encode(inspected{s, parts.Time, parts.Worker, parts.Sequence})
		} else {
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", s, parts.Time.Format("2006-01-02T15:04:05.000Z"), parts.Worker, parts.Sequence)
		}
	}
	table.Flush()
	return code
}
