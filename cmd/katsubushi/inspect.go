package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// inspected is one id taken apart; the names are those of kayac's katsubushi-dump, the id itself, and
// its kind. Only the last two are known of a uuid4.
type inspected struct {
	ID       string     `json:"id"` // a string: JavaScript's numbers hold 53 bits
	Time     *time.Time `json:"time,omitempty"`
	WorkerID *uint64    `json:"worker_id,omitempty"`
	Sequence *uint64    `json:"sequence,omitempty"`
	Kind     string     `json:"kind"`
}

// takeApart reads the text of an id. The error is for people.
func takeApart(text string, l generator.Layout) (inspected, error) {
	r, err := id.Parse(text)
	if err != nil {
		return inspected{}, fmt.Errorf("%s: %w", text, err)
	}
	kind := generator.ULID
	switch r.Form() {
	case id.Decimal:
		return withParts(text, "snowflake", l.Decompose(r.First)), nil
	case id.ObjectID:
		kind = generator.ObjectID
	case id.UUID:
		switch version := r.High >> 12 & 0xf; {
		case r.First>>62 != 2 || version != 4 && version != 7:
			return inspected{}, fmt.Errorf("%s: not a UUID of RFC 9562, version 4 or 7: katsubushi makes no others", text)
		case version == 4:
			return inspected{ID: text, Kind: "uuid4"}, nil
		}
		kind = generator.UUID7
	}
	t, err := generator.NewTextLayout(kind, l)
	if err != nil {
		return inspected{}, fmt.Errorf("%s: %w", text, err)
	}
	return withParts(text, kind.String(), t.Decompose(r.High, r.First)), nil
}

func withParts(text, kind string, p generator.Parts) inspected {
	return inspected{ID: text, Time: &p.Time, WorkerID: &p.Worker, Sequence: &p.Sequence, Kind: kind}
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
		fmt.Fprintln(table, "ID\tTIME\tWORKER ID\tSEQUENCE\tKIND")
	}
	for _, s := range p.args {
		x, err := takeApart(s, p.Layout)
		switch {
		case err != nil:
			fmt.Fprintln(stderr, err)
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
