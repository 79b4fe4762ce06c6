package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A place is where a daemon records. Daemons say it over their control sockets, to their own user and root.
// A field that a later release adds is ignored.
type place struct {
	StateDir     string `json:"state_dir"`              // of state files; empty = there are none
	SequencesIn  string `json:"sequences_in"`           // the state directory of sequences that are files; empty = none
	Counters     string `json:"counters"`               // the URL of the store of sequences; file = files
	PasswordFile string `json:"counters_password_file"` // of that URL
}

// whereTimeout is how long a daemon is waited for. One that stands still does not answer.
const whereTimeout = 2 * time.Second

// place returns where a daemon with these settings records.
func (p *parsed) place() (place, error) {
	full := func(path string) (string, error) {
		if path == "" {
			return "", nil
		}
		return filepath.Abs(path)
	}
	state, err1 := full(p.StateDir)
	sequences, err2 := full(p.Counters.Dir)
	password, err3 := full(p.Counters.PasswordFile)
	return place{state, sequences, p.Counters.URL, password}, errors.Join(err1, err2, err3)
}

// sayWhere answers a command that asks where the daemon records.
func (p *parsed) sayWhere(_ string, reply func(string, error)) {
	at, err := p.place()
	text, err2 := json.Marshal(at)
	reply(string(text), errors.Join(err, err2))
}

// A neighbour is a daemon of this host that this user may ask.
type neighbour struct {
	pid int
	place
	err error // it does not say where it records
}

// mute says that a daemon runs, and where it records is not known.
func (n neighbour) mute() string {
	switch {
	case errors.Is(n.err, control.ErrUnknown):
		return fmt.Sprintf("process %d is of an earlier version and does not say where it records", n.pid)
	case errors.Is(n.err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("process %d runs and did not say within %v where it records", n.pid, whereTimeout)
	}
	return fmt.Sprintf("process %d runs and did not say where it records: %v", n.pid, n.err)
}

// daemonsHere finds the daemons of this host. It is a variable because tests of other packages run daemons, too.
var daemonsHere = control.Find

// neighbours asks the daemons of this user, and root asks all.
func neighbours() (list []neighbour) {
	found, err := daemonsHere()
	if err != nil { // it is not Linux, for example: then no daemon can be asked
		return nil
	}
	me := os.Geteuid()
	for _, d := range found {
		if me != 0 && d.UID != me {
			continue
		}
		n := neighbour{pid: d.PID}
		text, err := control.Ask(d.PID, "where", whereTimeout, whereTimeout)
		if err == nil {
			err = json.Unmarshal([]byte(text), &n.place)
		}
		if err == nil {
			err = n.visible(fmt.Sprintf("/proc/%d/root", d.PID))
		}
		n.err = err
		list = append(list, n)
	}
	return list
}

// visible returns an error if a directory of the daemon is another one here: it may run in a container. root is
// where the daemon's file system is seen from here.
func (n *neighbour) visible(root string) error {
	for _, dir := range []string{n.StateDir, n.SequencesIn} {
		there, err := os.Stat(root + dir)
		if dir == "" || err != nil { // it is not made yet, or may not be seen
			continue
		}
		if here, err := os.Stat(dir); err != nil || !os.SameFile(here, there) {
			return fmt.Errorf("its %s is not the %s of this command: run the command where the daemon runs", dir, dir)
		}
	}
	return nil
}

// locate finds where to record if nobody has said it: where the daemon of this host does, or else where the unit's
// daemon will. Commands would otherwise write into the directory of the user who calls them, which no daemon
// looks into. So if a daemon runs and does not say where it records, a command that writes is refused; one that
// reads says where it looks. After a mistake in the command nobody is asked: it ends there.
func (p *parsed) locate(writes bool, ask func() []neighbour, unit func() string) {
	if len(p.problems) > 0 || p.given["state-dir"] != "" || strings.Contains(p.Counters.URL, "://") {
		return
	}
	var places []place
	var said, mute []string
	for _, n := range ask() {
		if n.err != nil {
			mute = append(mute, n.mute())
			continue
		}
		if !slices.Contains(places, n.place) {
			places = append(places, n.place)
		}
		said = append(said, fmt.Sprintf("process %d in %s", n.pid, n.place))
	}
	switch {
	case len(places) > 1:
		p.problems = append(p.problems, fmt.Errorf("several daemons serve here, and record in several places "+
			"(%s): choose one with -state-dir or -counters", strings.Join(said, ", ")))
	case len(places) == 1:
		p.follows(places[0])
	default:
		if dir := unit(); dir != "" {
			p.StateDir, p.Counters.Dir = dir, dir
		}
	}
	for _, text := range mute {
		if writes {
			p.problems = append(p.problems, fmt.Errorf("%s: give -state-dir, or for sequences -counters URL", text))
			continue
		}
		text = fmt.Sprintf("%s: what follows is of %s, with sequences in %s; -state-dir or -counters name another place",
			text, cmp.Or(p.StateDir, "no state directory"), cmp.Or(p.Counters.Where(), "none"))
		p.unknown = append(p.unknown, text)
	}
}

// follows takes over where a daemon records.
func (p *parsed) follows(at place) {
	if at.StateDir != "" { // or else the daemon has no state files
		p.StateDir = at.StateDir
	}
	p.Counters.Dir = at.SequencesIn
	if p.given["counters"] == "" {
		p.Counters.URL = at.Counters
		if p.given["counters-password-file"] == "" {
			p.Counters.PasswordFile = at.PasswordFile
		}
	}
}

func (at place) String() string {
	return stores.Counters{URL: at.Counters, Dir: at.SequencesIn}.Where()
}

// locateFiles is locate for state files. Where sequences are recorded says nothing of them.
func (p *parsed) locateFiles(writes bool, ask func() []neighbour, unit func() string) {
	p.Counters.URL = ""
	p.locate(writes, ask, unit)
}

// locateHere is locate on this host.
func (p *parsed) locateHere(writes bool) { p.locate(writes, neighbours, unitHere) }

func unitHere() string { return stateDirOfUnit(os.Geteuid(), units) }

// units are where a unit of the packages, or the operator's own, is installed.
var units = []string{
	"/etc/systemd/system/katsubushi.service",
	"/usr/lib/systemd/system/katsubushi.service",
	"/lib/systemd/system/katsubushi.service",
}

// stateDirOfUnit returns the state directory of the first unit that is there, for root, or "". systemd makes it,
// or takes over what root has made, when the unit starts.
func stateDirOfUnit(user int, units []string) string {
	if user != 0 {
		return ""
	}
	for _, path := range units {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(io.LimitReader(f, 1<<20)); lines.Scan(); {
			value, ok := strings.CutPrefix(lines.Text(), "StateDirectory=")
			if names := strings.Fields(value); ok && len(names) > 0 {
				return filepath.Join("/var/lib", names[0])
			}
		}
		return ""
	}
	return ""
}

// recorded says where a command has written.
func recorded(stderr io.Writer, where string) { fmt.Fprintln(stderr, "recorded in", where) }
