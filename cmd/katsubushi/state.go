package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const stateIntro = `-state-dir means the same as for the daemon. Without it the command asks the daemon that runs on this host;
if none runs, root gets the directory of the systemd unit. usage:
`

func stateVerbs() []verb {
	return []verb{
		{synopsis: "show  -state-dir DIR [-json]", text: "what the state files say", reads: true, run: state},
		{synopsis: "adopt -state-dir DIR -worker-id N", run: state,
			text: "take over a file from another machine, which has stopped for good"},
		{synopsis: "reset -state-dir DIR -worker-id N -mark TIME\n                       [-force]", run: state,
			text: "make a new file: ids are issued above TIME only. They repeat if any\n" +
				"were issued above it, so a file that can be read and says that there\n" +
				"may be some is replaced with -force only. TIME is now, Unix ms or\n2015-01-01T00:00:00Z"},
	}
}

// state inspects and repairs the files that record the windows of worker ids given by hand.
func state(c *call) int {
	c.locateFiles(!c.verb.reads, neighbours, unitHere)
	at := c.checkState()
	if c.refused() {
		return exitUsage
	}
	c.warn(c.stderr)
	infos, err := c.changeState(c.verb.called(), at, false)
	var lowered *static.LoweredError
	switch {
	case !errors.As(err, &lowered):
	case c.force:
		fmt.Fprintf(c.stderr, "-force: %v\n", lowered)
		infos, err = c.changeState(c.verb.called(), at, true)
	default:
		err = fmt.Errorf("%w. Take a later -mark; with -force it is set back by %v", err, lowered.By())
	}
	if err != nil {
		return c.fail(err)
	}
	return printStates(infos, c.json, c.stdout)
}

// checkState notes what is missing, and returns the time of -mark.
func (c *call) checkState() (at time.Time) {
	if c.StateDir == "" {
		c.problem("-state-dir: required")
	}
	one := len(c.WorkerIDs) == 1
	if !c.verb.reads && !one {
		c.problem("-worker-id: one worker id is required")
	}
	if c.verb.called() != "reset" {
		return at
	}
	at, err := parseMark(c.mark)
	if err != nil {
		c.problem("-mark=%s: %w", c.mark, err)
	}
	if most := c.Layout.MaxWorker(); one && c.WorkerIDs[0] > most && !c.failed["Layout"] {
		c.problem("-worker-id: %d: 0 to %d allowed in this layout; give the daemon's -layout and -worker-bits",
			c.WorkerIDs[0], most)
	}
	return at
}

func (p *parsed) changeState(verb string, mark time.Time, force bool) ([]static.Info, error) {
	var info static.Info
	var err error
	switch verb {
	case "show":
		return static.Inspect(p.StateDir)
	case "adopt":
		info, err = static.Adopt(p.StateDir, p.WorkerIDs[0], time.Now().UnixMilli())
	case "reset":
		info, err = static.Reset(p.StateDir, p.WorkerIDs[0], mark.UnixMilli(), p.Layout.Fingerprint(), force)
	}
	return []static.Info{info}, err
}

// parseMark has no default: only the operator knows up to when ids were issued.
func parseMark(s string) (time.Time, error) {
	if s == "now" {
		return time.Now(), nil
	}
	return parseTime(s, "now, Unix milliseconds or a time such as 2015-01-01T00:00:00Z is needed")
}

// shown is a state file as -json prints it.
type shown struct {
	File        string   `json:"file"`
	WorkerID    uint64   `json:"worker_id"`
	Mark        string   `json:"mark"`
	Generation  uint64   `json:"generation"`
	Fingerprint string   `json:"fingerprint"`
	Machine     string   `json:"machine,omitempty"`
	Damage      []string `json:"damage,omitempty"`
	Error       string   `json:"error,omitempty"`
}

// printStates returns exitFailure if a file cannot be used.
func printStates(infos []static.Info, asJSON bool, stdout io.Writer) int {
	code := exitOK
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "WORKER ID\tRESERVED UP TO\tWRITES\tLAYOUT\tFILE")
	}
	for _, i := range infos {
		s := shown{i.Path, i.Worker, i.HighWater.Format(millisecond), i.Generation, i.Fingerprint, i.Machine, i.Damage, ""}
		note := i.Path
		if len(i.Damage) > 0 {
			note += " (one copy is damaged, the other is used: " + strings.Join(i.Damage, "; ") + ")"
		}
		if i.Err != nil {
			code, s = exitFailure, shown{File: i.Path, Error: i.Err.Error()}
			note = i.Path + ": " + i.Err.Error()
		}
		switch {
		case asJSON:
			json.NewEncoder(stdout).Encode(s)
		case i.Err != nil:
			fmt.Fprintf(table, "?\t?\t?\t?\t%s\n", note)
		default:
			fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\n", i.Worker, s.Mark, i.Generation, i.Fingerprint, note)
		}
	}
	table.Flush()
	return code
}
