// Package fleet shows a daemon what the others of its fleet say of themselves: it reads who is announced, and asks
// those for their statistics, while somebody looks.
//
// The guarantee: nobody is asked unless somebody looks, no daemon is asked more than once in five seconds, at most 64
// are asked at a time, and one that hangs delays no other. Whatever the others answer, what is shown is short and
// printable. Not promised: that it is true.
package fleet

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/announce"
)

// A Roster is what is known of a fleet. It is written as JSON for `katsubushi fleet`; later releases may add fields.
type Roster struct {
	Members    []Member `json:"daemons"`    // by address
	More       int      `json:"more"`       // daemons that are left out
	Unreadable int      `json:"unreadable"` // announcements that cannot be read
	Problem    string   `json:"problem"`    // why the list may be old, or empty
}

// Cut is the Problem of a list that is too long: daemons are missing in it.
const Cut = "More is announced than is listed: daemons may be missing here."

// The states of a Member. Others are those of announce.Trouble.
const (
	Ready    = "ready"
	NotReady = "not ready"
	Asking   = "asking" // it has not answered yet
)

// A Member is a daemon of the fleet. All texts are printable ASCII.
type Member struct {
	Addr    string   `json:"addr"` // host:port of its memcached port; empty = not known yet
	Self    bool     `json:"self"` // the one that was asked
	State   string   `json:"state"`
	Workers []uint64 `json:"worker_ids"`
	Version string   `json:"version"`
	// Ahead is its clock minus that of the daemon that was asked, exact to half a second. What is not known of a
	// Member is nil.
	Ahead  *Milliseconds `json:"clock_ahead_ms"`
	Left   *Milliseconds `json:"window_left_ms"` // of its shortest window
	Groups *int          `json:"groups_led"`     // of sequences in strict order
	Since  *time.Time    `json:"since"`          // when it was started
	Page   string        `json:"page"`           // URL of its status page; empty = none that others reach
	Note   string        `json:"note"`           // such as that another one has its worker id; empty = nothing
}

// Milliseconds are a duration that is a number of milliseconds as JSON.
type Milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return err
}

// Clock says how far its clock is from that of the daemon that was asked, as exactly as that is known. show writes a
// duration. Ahead must not be nil.
func (m *Member) Clock(show func(time.Duration) string) string {
	switch d := time.Duration(*m.Ahead); {
	case d.Abs() < time.Second:
		return "within " + show(time.Second)
	case d > 0:
		return "+" + show(d.Round(time.Second))
	default:
		return show(d.Round(time.Second))
	}
}

// Compare notes of daemons that have answered whether another one says that it holds one of their worker ids: it may
// be one daemon that is announced twice, or one that only says so.
func Compare(list []Member) {
	first := map[uint64]*Member{}
	for i := range list {
		m := &list[i]
		if !m.Answered() {
			continue
		}
		for _, id := range m.Workers {
			if first[id] == nil {
				first[id] = m
			}
			if other := first[id]; other != m {
				m.Note = "same worker id as " + other.Addr
				other.Note = cmp.Or(other.Note, "same worker id as "+m.Addr)
			}
		}
	}
}

// Answered reports whether it is the daemon that was asked, or has answered that one.
func (m *Member) Answered() bool { return m.Self || m.Ahead != nil }

// Standing is the state with the note.
func (m *Member) Standing() string {
	if m.Note == "" {
		return m.State
	}
	return m.State + ", " + m.Note
}

// answer adds what the daemon has said of itself at a moment.
func (m *Member) answer(r announce.Reply, at time.Time) {
	m.Workers, m.Version = r.Workers, cmp.Or(r.Version, m.Version)
	if r.Ready != nil {
		m.State = NotReady
		if *r.Ready {
			m.State = Ready
		}
	}
	ahead := Milliseconds(r.Ahead)
	m.Ahead, m.Left, m.Groups = &ahead, (*Milliseconds)(r.Left), r.Groups
	if r.Up > 0 {
		since := at.Add(-r.Up).Truncate(time.Second)
		m.Since = &since
	}
	m.Page = pageOf(m.Addr, r)
}

// pageOf returns the URL of a daemon's status page, or "" if it has none that others reach: most listen on loopback.
func pageOf(addr string, r announce.Reply) string {
	host, _, err := net.SplitHostPort(addr)
	if r.HTTPPort == 0 || err != nil || !linked(host) {
		return ""
	}
	own, _ := netip.ParseAddr(host)
	switch at, err := netip.ParseAddr(r.HTTPBind); {
	case r.HTTPBind == "NULL", err == nil && at.IsUnspecified():
	case err != nil, at.IsLoopback() && !own.IsLoopback():
		return ""
	default:
		host = r.HTTPBind
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(r.HTTPPort)) + "/"
}

// linked reports whether a host may stand in a URL.
func linked(host string) bool {
	const name = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
	if at, err := netip.ParseAddr(host); err == nil {
		return at.Zone() == ""
	}
	return host != "" && strings.Trim(host, name) == ""
}

// plain returns a text in which everything but printable ASCII is replaced.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}

// Before orders daemons by address, numbers as numbers; those without one come last.
func (m *Member) Before(o *Member) int {
	if (m.Addr == "") != (o.Addr == "") {
		return -cmp.Compare(m.Addr, o.Addr)
	}
	host, port, _ := net.SplitHostPort(m.Addr)
	otherHost, otherPort, _ := net.SplitHostPort(o.Addr)
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	a, err1 := netip.ParseAddr(host)
	b, err2 := netip.ParseAddr(otherHost)
	order := strings.Compare(host, otherHost)
	if err1 == nil && err2 == nil {
		order = a.Compare(b)
	}
	return cmp.Or(order, number(port)-number(otherPort))
}
