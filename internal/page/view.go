package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// A View is the daemon at one moment, as the page shows it. Nothing in it may be a secret: no
// passwords, users, tokens, and no addresses of clients, which Config.Clients has. Whatever it holds is
// escaped where it is shown.
type View struct {
	Now     time.Time
	Started time.Time
	Host    string // this host's name
	Version string
	Engine  string
	Loops   int
	Ports   []Port // also in the commands that findings advise

	Stopping bool
	NotReady string // why the daemon issues no ids; empty = it does
	NoStrict string // why only strict order keeps it from being ready; empty = it does not
	Closed   bool   // the ports for ids are not open yet
	Restart  string // why it must be restarted to serve sequences in strict order; empty = it need not

	NotAnnounced string   // why the store refuses to announce this daemon; empty = it does not
	NotReloaded  []string // what the last reload could not read, and why
	Unsure       string   // why keys that are not declared get no ids; empty = they do

	Lanes    []Lane
	Store    Store
	RunAhead time.Duration // how far ahead of the clock ids may be issued

	Names   []Name
	Lately  time.Duration // for how long Name.Lately counts, a minute or so; 0 = not known yet
	Groups  []Group       // of sequences in strict order that this daemon knows
	Leading int           // of all groups, those that this daemon leads

	Sample                        // the counts at this moment
	ConnectionsLimit        int64 // of Sample.Connections; 0 = none
	Buffers, BuffersLimit   int64 // bytes of unfinished input and unsent output; limit 0 = none
	ClockDifference         time.Duration
	Layout                  generator.Layout
	Others                  []generator.Layout // of names that have another layout
	Certificate             time.Time          // it expires; zero = there is none
	Alarms                  []Alarm
	Events                  []Event // the newest first
	Peers, PeersAsked, Told int     // other daemons; those asked about their clocks; those that answered
	Unreadable              int     // announcements that say nothing to this daemon
}

// A Port is where the daemon listens.
type Port struct{ Name, Address string }

// httpPort is the name of the port that serves the page.
const httpPort = "HTTP"

// A Lane is the slot of one worker id.
type Lane struct {
	Worker    uint64
	HasWorker bool   // false = neither a worker id nor a window
	State     string // as workerid.State has it
	Reason    string // the last error, or what the lane waits for
	For       time.Duration
	Left      time.Duration // until the window ends
	Open      bool          // the window has no end, so nothing has to be extended
	RunAhead  time.Duration // last id − now; negative while idle
}

// A Store is what records the windows of the worker ids.
type Store struct {
	Kind     string        // Redis, ZooKeeper, etcd, "state directory" or "none"
	Where    string        // a directory; empty for other kinds
	Server   string        // host:port that answered last; empty = not known
	URL      string        // of a server, without secrets; empty for other kinds
	Full     time.Duration // how long a window is after it was extended
	Short    time.Duration // what a window must not get down to while it is extended
	Facts    []figure.Figure
	ClockOff time.Duration // the store's clock, or the other daemons', minus this one's
	MaxSkew  time.Duration // how large that may get; 0 = it does not matter
	Replicas int
	Needed   int           // of the replicas, how many must have a lease before it counts
	Wait     time.Duration // until newcomers get worker ids; 0 = at once

	Unwritten string        // why state files are not written; empty = they are
	Left      time.Duration // for how long ids go on without
}

// name says where windows are recorded.
func (s *Store) name() string {
	switch s.Kind {
	case stateDirectory:
		return s.Where
	case noStore:
		return "nothing"
	}
	return s.Kind
}

// says returns what a store says of itself, as people read it; nothing where it says nothing.
func (s *Store) says() (list []fact) {
	for _, f := range s.Facts {
		value := f.Value
		if d, ok := value.(time.Duration); ok {
			value = d.Round(time.Millisecond)
		}
		if f.Stat != "" && value != "" {
			name := strings.TrimPrefix(f.Name(), "lease_")
			list = append(list, fact{strings.ReplaceAll(name, "_", " "), fmt.Sprint(value)})
		}
	}
	return list
}

// A fact is what is said of something, with its name.
type fact struct{ name, value string }

// A Name is a declared name.
type Name struct {
	Name, Kind string
	NameCounts            // since the start
	Lately     NameCounts // of these, in View.Lately
	Refusal    string     // why it issues nothing; empty = it does
	Over       bool       // for good, on every daemon
	Retired    bool       // an operator wanted that
	Sequence   *Sequence
}

// described is the kind, and the order of a sequence.
func (n Name) described() string {
	if n.Sequence == nil {
		return n.Kind
	}
	return n.Kind + ", " + n.Sequence.Order
}

// A Sequence is what only a sequence has.
type Sequence struct {
	Order    string // free or strict
	Last     int64
	Hidden   bool // Last and Left are not shown: to get ids one must log in, and not to see the page
	Left     int64
	DaysLeft float64 // 0 = this daemon does not know; farAway or more = it lasts
	Leader   string  // of strict order: an address, "this daemon" or "none"
	Timed    *Timed  // nil = its values are plain numbers
}

// Timed is what only timestamps have.
type Timed struct {
	Layout   generator.Layout
	Node     uint64
	Hi       uint64        // the largest id that may be issued without another write; 0 = this daemon does not lead
	Distance time.Duration // how far the last id is ahead of the clock
}

// has reports whether a number may be a value that was issued.
func (q *Sequence) has(value uint64) bool {
	return value > 0 && q.Last > 0 && value <= uint64(q.Last) &&
		(q.Timed == nil || q.Timed.Layout.Decompose(value).Worker == q.Timed.Node)
}

// last is the last value of a sequence, if it is shown.
func (q *Sequence) last() string {
	if q.Hidden {
		return "–"
	}
	return signed(q.Last)
}

// few is how many values are not plenty, however seldom they are used.
const few = 1_000_000

// lasts says how long a sequence lasts.
func (q *Sequence) lasts() string {
	values := ", " + signed(q.Left) + " values"
	if q.Hidden {
		values = ""
	}
	switch {
	case q.Timed != nil && q.Timed.Hi == 0:
		return ""
	case q.Timed != nil:
		text := span(q.Timed.Distance.Round(time.Millisecond)) + " ahead of the clock"
		if !q.Hidden {
			text += ", recorded up to " + number(q.Timed.Hi)
		}
		return text
	case q.DaysLeft == 0:
		return "–" // its leader knows
	case q.DaysLeft >= farAway && !q.Hidden && q.Left < few:
		return signed(q.Left) + " values"
	case q.DaysLeft >= farAway:
		return "plenty"
	case q.DaysLeft < 2:
		return span(time.Duration(q.DaysLeft*24*float64(time.Hour)).Truncate(time.Minute)) + values
	}
	return amount(q.DaysLeft) + " d" + values
}

// A Group is 1,024 slots of Redis Cluster, whose sequences in strict order have one leader.
type Group struct {
	Number int
	Leader string // its address; empty = nobody leads it
	Mine   bool
	Term   uint64
}

// led says who leads the group.
func (g Group) led() string {
	if g.Mine {
		return "this daemon"
	}
	return cmp.Or(g.Leader, "none")
}

// An Alarm is what the check of the peers has found. Kind is as announce.Kind has it.
type Alarm struct{ Kind, Text string }

// An Event is a change of the daemon's state.
type Event struct {
	At    time.Time
	Level string // INFO, WARN or ERROR
	Text  string
}
