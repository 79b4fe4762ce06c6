package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/control"
	others "github.com/katsubushi/katsubushi/v3/internal/fleet"
)

const fleetIntro = `asks a daemon on this host for the list of daemons and their statistics, as its status page shows them. usage:
  katsubushi fleet [-pid N] [-json]
The daemon finds the others in the -store from which it leases its worker id, and asks them for their statistics. Only root and the user
of the daemon may ask.
`

// How long a daemon asks the others for `katsubushi fleet`, which is enough for the most that it asks; and how long
// the command waits.
const (
	fleetPatience = 20 * time.Second
	fleetTimeout  = fleetPatience + 5*time.Second
)

// fleetOf asks a daemon for its fleet, and prints it.
func fleetOf(c *call) int {
	if len(c.problems) == 0 && c.pid < 0 {
		c.problem("-pid %d: not a process", c.pid)
	}
	if c.refused() {
		return exitUsage
	}
	text, roster, err := c.askFleet()
	if err != nil {
		return c.fail(fmt.Errorf("fleet: %w", err))
	}
	if c.json {
		fmt.Fprintln(c.stdout, text)
	} else {
		printFleet(c.stdout, roster)
	}
	if roster.Problem != "" {
		return c.fail(errors.New(roster.Problem))
	}
	return exitOK
}

func (c *call) askFleet() (text string, r others.Roster, err error) {
	if c.pid == 0 {
		if c.pid, err = onlyDaemon(); err != nil {
			return "", r, err
		}
	}
	text, err = control.Ask(c.pid, "fleet", whereTimeout, fleetTimeout)
	if errors.Is(err, control.ErrUnknown) {
		err = fmt.Errorf("process %d is of an earlier version, which does not know its fleet: katsubushi upgrade "+
			"replaces it", c.pid)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return text, r, err
}

// printFleet writes a fleet for people.
func printFleet(w io.Writer, r others.Roster) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ADDRESS\tSTATE\tWORKER IDS\tWINDOW LEFT\tCLOCK\tGROUPS\tVERSION\tSINCE")
	for i := range r.Members {
		fmt.Fprintln(table, strings.Join(fleetRow(&r.Members[i]), "\t"))
	}
	table.Flush()
	fmt.Fprintln(w, "\n* was asked. CLOCK: how far ahead (+) of its clock, or behind. "+
		"GROUPS of strict sequences that a daemon leads.")
	if r.More > 0 {
		fmt.Fprintf(w, "%d more are left out.\n", r.More)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "%d announcements cannot be read.\n", r.Unreadable)
	}
}

// fleetRow returns what is printed of a daemon.
func fleetRow(m *others.Member) []string {
	address, workers, left, clock, groups, since := cmp.Or(m.Addr, "-"), []string{}, "-", "-", "-", "-"
	if m.Self {
		address += " *"
	}
	for _, id := range m.Workers {
		workers = append(workers, strconv.FormatUint(id, 10))
	}
	if m.Left != nil {
		left = time.Duration(*m.Left).Round(100 * time.Millisecond).String()
	}
	if m.Ahead != nil {
		clock = m.Clock(time.Duration.String)
	}
	if m.Groups != nil {
		groups = strconv.Itoa(*m.Groups)
	}
	if m.Since != nil {
		since = m.Since.UTC().Format(time.RFC3339)
	}
	return []string{address, m.Standing(), cmp.Or(strings.Join(workers, ","), "-"), left, clock, groups,
		cmp.Or(m.Version, "-"), since}
}
