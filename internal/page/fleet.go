package page

import (
	"cmp"
	_ "embed" // fleet.html
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/fleet"
)

// The other daemons, where they are announced. They are asked while somebody looks.

//go:embed fleet.html
var fleetTemplate string

const (
	maxDaemons = 100 // that the page shows; `katsubushi fleet` has all
	// How long a reader waits for what the other daemons answer: those of the page's own script not at all, as they
	// come again; nor long those of a browser, which that script will tell; the others long enough for each to answer.
	browserPatience = 300 * time.Millisecond
	plainPatience   = 1200 * time.Millisecond
	// clockWorry is how far apart clocks are that the page marks: half of what the check of the peers allows.
	clockWorry = 5 * time.Second
)

// fleetFor returns the fleet for a reader, or nil if there is none.
func (c *Config) fleetFor(live, browser bool) *fleet.Roster {
	switch {
	case c.Fleet == nil:
		return nil
	case live:
		return c.Fleet(0)
	case browser:
		return c.Fleet(browserPatience)
	}
	return c.Fleet(plainPatience)
}

// daemons returns those that are shown. If there are too many, this daemon comes first, then those with troubles.
// Those that do not answer, which may be anything that is announced, get half of the room.
func (d *document) daemons() []fleet.Member {
	list := d.fleet.Members
	if len(list) <= maxDaemons {
		return list
	}
	list = slices.Clone(list)
	silent := 0
	turn := map[string]int{}
	for i := range list {
		m := &list[i]
		turn[m.Addr] = quiet(m)
		if turn[m.Addr] == noAnswer {
			if silent++; silent > maxDaemons/2 {
				turn[m.Addr] = last
			}
		}
	}
	slices.SortStableFunc(list, func(a, b fleet.Member) int { return turn[a.Addr] - turn[b.Addr] })
	return list[:maxDaemons]
}

// The order of daemons, those first that an operator looks for.
const (
	itself = iota
	troubled
	noAnswer
	asking
	wellKnown
	last
)

func quiet(m *fleet.Member) int {
	switch {
	case m.Self:
		return itself
	case m.Standing() == fleet.Ready:
		return wellKnown
	case m.State == fleet.Asking:
		return asking
	case m.Answered():
		return troubled
	}
	return noAnswer
}

// fleetFields adds the fleet to what the template shows.
func (d *document) fleetFields(f fields) {
	f["fleet"] = d.fleet != nil
	if d.fleet == nil {
		f["daemons"], f["fleet hint"] = []fields(nil), ""
		return
	}
	f["daemons"] = each(d.daemons(), d.daemonFields)
	f["fleet hint"] = d.fleetHint()
}

// A daemonRow is what is shown of a daemon.
type daemonRow struct {
	address, state, class, workers, left, clock, clockClass, groups, version, up string
}

func (d *document) rowOf(m *fleet.Member) daemonRow {
	r := daemonRow{address: cmp.Or(m.Addr, "not known yet"), state: m.Standing(), class: "soon", workers: "–", left: "–",
		clock: "–", groups: "–", version: cmp.Or(m.Version, "–"), up: "–"}
	switch m.Standing() {
	case fleet.Ready:
		r.class = "good"
	case fleet.Asking:
		r.class = "idle"
	}
	if len(m.Workers) > 0 {
		r.workers = Ranges(m.Workers)
	}
	if m.Left != nil {
		r.left = span(time.Duration(*m.Left).Truncate(100 * time.Millisecond))
	}
	if m.Ahead != nil {
		r.clock = m.Clock(wholeSeconds)
		if time.Duration(*m.Ahead).Abs() >= clockWorry {
			r.clockClass = "state soon"
		}
	}
	if m.Groups != nil {
		r.groups = strconv.Itoa(*m.Groups)
	}
	if m.Since != nil {
		r.up = span(max(0, d.Now.Sub(*m.Since).Truncate(time.Second)))
	}
	return r
}

// wholeSeconds is span without tenths of a second.
func wholeSeconds(d time.Duration) string { return strings.Replace(span(d), ".0 s", " s", 1) }

func (d *document) daemonFields(m fleet.Member) fields {
	r := d.rowOf(&m)
	return fields{"address": r.address, "page": m.Page, "self": m.Self, "state": r.state, "class": r.class,
		"workers": r.workers, "left": r.left, "clock": r.clock, "clock class": r.clockClass, "groups": r.groups,
		"version": r.version, "up": r.up}
}

// fleetHint says what is not in the table.
func (d *document) fleetHint() string {
	r := d.fleet
	hint := []string{"Asked while this page is open, at most every 5 s. Clocks are compared with this daemon's."}
	if more := r.More + len(r.Members) - len(d.daemons()); more > 0 {
		hint = append(hint, number(uint64(more))+" more: katsubushi fleet lists them.")
	}
	if r.Unreadable > 0 {
		hint = append(hint, counted(uint64(r.Unreadable), "announcement", "announcements")+" cannot be read.")
	}
	return strings.TrimSpace(strings.Join(append(hint, r.Problem), " "))
}

// plainFleet writes the fleet as plain text.
func (d *document) plainFleet(line func(format string, args ...any)) {
	if d.fleet == nil {
		return
	}
	const form = "%-24s %-13s %-12s %-12s %-10s %-7s %-10s %s"
	line("")
	line(form, "DAEMON", "STATE", "WORKER IDS", "WINDOW LEFT", "CLOCK", "GROUPS", "VERSION", "UP")
	for _, m := range d.daemons() {
		r := d.rowOf(&m)
		if m.Self {
			r.address += " *"
		}
		line(form, r.address, r.state, r.workers, r.left, r.clock, r.groups, r.version, r.up)
	}
	line("* this daemon. %s", d.fleetHint())
}
