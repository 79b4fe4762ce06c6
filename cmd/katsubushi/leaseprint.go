package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// initialised is the result of `lease init`.
type initialised struct {
	Result string `json:"result"`
}

// printLease writes a result for people.
func printLease(w io.Writer, result any) {
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	switch r := result.(type) {
	case initialised:
		fmt.Fprintln(w, map[string]string{
			workerid.InitMade:    "made: its worker ids can be had",
			workerid.InitWaiting: "made: its worker ids can be had one lease from now, when nobody can have one from before",
			workerid.InitAdopted: "made from a pool of yaraus's, whose clients may go on for now: `lease init -how " +
				"migrated` when the last has left",
			workerid.InitFinished: "yaraus's clients may not come back",
			workerid.InitPresent:  "there already: nothing was done",
		}[r.Result])
	case listed:
		printList(w, r)
	case workerid.Freed:
		if r.Owner == "" {
			fmt.Fprintln(w, "free already: nobody has it")
			return
		}
		row("owner", r.Owner)
		row("lease until", moment(r.ExpireAt))
		row("can be had after", moment(r.Until))
	case workerid.Report:
		for _, r := range r.Rows() {
			if t, ok := r.Value.(time.Time); ok {
				r.Value = moment(t)
			}
			row(r.Name, r.Value)
		}
	}
}

// listed is the result of `lease list`. As JSON it is the list of what is shown.
type listed struct {
	shown          []workerid.Lease
	free, heldBack int       // how many are not shown
	until          time.Time // when the last of those held back becomes free
}

func (l listed) MarshalJSON() ([]byte, error) { return json.Marshal(l.shown) }

// inUse leaves out what nobody has, unless all are wanted, or an operator must know something of it.
func inUse(list []workerid.Lease, all bool) listed {
	l := listed{shown: []workerid.Lease{}}
	for _, one := range list {
		switch {
		case all || one.Note != "" || one.Using && one.Owner != "":
			l.shown = append(l.shown, one)
		case one.Using:
			l.heldBack++
			if one.ExpireAt.After(l.until) {
				l.until = one.ExpireAt
			}
		default:
			l.free++
		}
	}
	return l
}

func printList(w io.Writer, l listed) {
	if len(l.shown) > 0 {
		fmt.Fprintln(w, "WORKER ID\tSTATE\tUNTIL\tWINDOW FROM\tOWNER")
	}
	for _, one := range l.shown {
		state := "free"
		switch {
		case one.Using && one.Owner == "":
			// after a loss, or because an operator released it: until everything that may have
			// been granted is over
			state = "held back"
		case one.Using:
			state = "held"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s", one.Worker, state, moment(one.ExpireAt), moment(one.From), one.Owner)
		if one.Note != "" {
			fmt.Fprintf(w, "\t%s", one.Note)
		}
		fmt.Fprintln(w)
	}
	if l.heldBack > 0 {
		fmt.Fprintf(w, "%d held back, the last until %s; %d free: -all lists them\n", l.heldBack, moment(l.until), l.free)
	} else if l.free > 0 {
		fmt.Fprintf(w, "%d free: -all lists them\n", l.free)
	}
}

// moment writes a time, or a dash for none.
func moment(t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "-"
	}
	return t.UTC().Format(millisecond)
}
