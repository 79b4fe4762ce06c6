package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const stateUsage = `-state-dir is the daemon's. Without it the daemon that runs on this host is asked for its own;
if there is none, root takes that of the systemd unit. usage:
  katsubushi state show  -state-dir DIR [-json]                   what the state files say
  katsubushi state adopt -state-dir DIR -worker-id N              take over a file that was written on another machine, which has
                                                                  stopped for good
  katsubushi state reset -state-dir DIR -worker-id N -mark TIME   make a new file: ids are issued above TIME only. They repeat if any
                         [-force]                                 were issued above it, so a file that can be read and says that there
                                                                  may be some is replaced with -force only. TIME is now, Unix ms or
                                                                  2015-01-01T00:00:00Z`

// state inspects and repairs the files that record the windows of worker ids given by hand.
func state(args []string, env variables, stdout, stderr io.Writer) int {
	var verb, mark string
	var asJSON, force bool
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	p, fs, err := parse(settings(), args, env, func(fs *flag.FlagSet) {
		fs.BoolVar(&asJSON, "json", false, "")
		fs.StringVar(&mark, "mark", "", "")
		fs.BoolVar(&force, "force", false, "")
	})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, stateUsage)
		flagsOf(fs, stdout, topicDaemon, topicRecords)
		return exitOK
	}
	p.locateFiles(verb != "show", neighbours, unitHere)
	p.warn(stderr)
	problem := func(format string, args ...any) { p.problems = append(p.problems, fmt.Errorf(format, args...)) }
	if p.StateDir == "" {
		problem("-state-dir: one is needed")
	}
	if len(p.args) > 0 {
		problem("%q: not a flag", p.args[0])
	}
	if verb != "show" && len(p.WorkerIDs) != 1 {
		problem("-worker-id: one is needed")
	}
	var at time.Time
	switch verb {
	case "show", "adopt":
	case "reset":
		if at, err = parseMark(mark); err != nil {
			problem("-mark=%s: %w", mark, err)
		}
		if most := p.Layout.MaxWorker(); len(p.WorkerIDs) == 1 && p.WorkerIDs[0] > most && !p.failed["Layout"] {
			problem("-worker-id: %d: 0 to %d allowed in this layout; -layout and -worker-bits are the daemon's",
				p.WorkerIDs[0], most)
		}
	case "":
		problem("state: the verb comes first: show, adopt and reset are there")
	default:
		problem("state %s: show, adopt and reset are there", verb)
	}
	if force && verb != "reset" {
		problem("-force: only reset has it")
	}
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, stateUsage)
		return exitUsage
	}
	infos, err := p.changeState(verb, at, false)
	var lowered *static.LoweredError
	switch {
	case !errors.As(err, &lowered):
	case force:
		fmt.Fprintf(stderr, "-force: %v\n", lowered)
		infos, err = p.changeState(verb, at, true)
	default:
		err = fmt.Errorf("%w. Take a later -mark; with -force it is set back by %v", err, lowered.By())
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	return printStates(infos, asJSON, stdout)
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
