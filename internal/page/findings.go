package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// Level says how urgent a finding is.
type Level int

// The levels, the worst first.
const (
	Urgent Level = iota // clients get errors, or may get wrong ids
	Soon                // they will, unless somebody acts
	Note                // good to know
)

func (l Level) String() string { return [...]string{"act now", "act soon", "note"}[l] }

// A Finding is something that is wrong: what, what it means, and what to do.
type Finding struct {
	Level           Level
	What, Means, Do string
	Command         string // that helps; empty = there is none
	Entry           string // the heading in docs/RUNBOOK.md
	rule            string // that found it
}

// CertificateShort is how long a certificate should still be valid.
const CertificateShort = 14 * 24 * time.Hour

const (
	shortTimeField  = 2 * 365 * 24 * time.Hour
	farAway         = 1e6 // days that a sequence lasts at least that does not end, as issuer has it
	slowAcquisition = 15 * time.Second
	settled         = 10 * time.Second // a lane that serves for less may be as far ahead as it can be
	maxFindings     = 20
	maxNameFindings = 3 // that issue nothing, and as many that end: a store that is away must not hide the rest
	clockApart      = 500 * time.Millisecond
)

// A situation is what rules look at.
type situation struct {
	*View
	minute, all [NumTroubles]uint64 // how much troubles grew in the last minute, and in the last ten
}

// rules find what is wrong. The first of two that are equally urgent is shown first.
var rules = []struct {
	name string
	find func(s *situation, add func(Finding))
}{
	{"not ready", notReady}, {"lanes", laneFindings}, {"names", nameFindings}, {"groups", groupFindings},
	{"alarms", alarmFindings},
	{"reload", reloads}, {"time field", timeField}, {"certificate", certificate}, {"connections", connectionFindings},
	{"refusals", refusals},
	{"clock", clockFindings}, {"store", storeFindings}, {"memory", memory}, {"run-ahead", runAhead}, {"log", logAndLogins},
	{"descriptors", descriptors},
	{"record", record},
}

// findings returns what is wrong, the worst first; more is the number of those that are left out.
func findings(v *View, list []Sample) (found []Finding, more int) {
	s := &situation{View: v, minute: growth(list, &v.Sample, time.Minute), all: growth(list, &v.Sample, Span)}
	for _, r := range rules {
		r.find(s, func(f Finding) {
			f.rule, f.Entry = r.name, cmp.Or(f.Entry, entries[r.name])
			found = append(found, f)
		})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Level, b.Level) })
	if len(found) > maxFindings {
		more = len(found) - maxFindings
		found = found[:maxFindings]
	}
	return found, more
}

// curl is a command that asks the HTTP port, from this host.
func (s *situation) curl(path string) string {
	at := ""
	for _, p := range s.Ports {
		if p.Name == httpPort {
			at = p.Address
		}
	}
	if a, err := netip.ParseAddrPort(at); err == nil && a.Addr().IsUnspecified() {
		at = fmt.Sprintf("127.0.0.1:%d", a.Port())
	}
	return "curl -s http://" + at + "/" + path
}

// peers is a command that counts the connections of each client, the most last.
func (s *situation) peers() string {
	var ports []string
	for _, p := range s.Ports {
		if a, err := netip.ParseAddrPort(p.Address); err == nil &&
			!slices.Contains([]string{httpPort, "admin", "debug"}, p.Name) {
			ports = append(ports, fmt.Sprint("sport = :", a.Port()))
		}
	}
	filter := ""
	if len(ports) > 0 { // none where there is only a unix socket
		filter = "'" + strings.Join(ports, " or ") + "' "
	}
	return "ss -Htn state established " + filter +
		"| awk '{print $4}' | sed 's/:[0-9]*$//' | sort | uniq -c | sort -n | tail"
}

func notReady(s *situation, add func(Finding)) {
	switch {
	case s.Stopping:
		add(Finding{Level: Note, What: "The daemon is shutting down.",
			Means: "It answers the requests that it has and then ends. Load balancers see that it is not ready.",
			Do:    "Nothing, if an operator stopped it."})
	case s.NotReady != "":
		means := "Clients get this error instead of an id, and /readyz answers 503."
		if s.Closed {
			means = "The port opens once ids can be issued: until then clients cannot connect, and /readyz answers 503."
		}
		add(Finding{Level: Urgent, What: "No ids are issued: " + s.NotReady + ".", Means: means,
			Do: "Look at what each worker id waits for, below.", Command: s.curl("readyz")})
	case s.NoStrict != "":
		add(Finding{Level: Urgent, What: "No ids are issued in strict order: " + s.NoStrict + ".",
			Means: "Load balancers send no clients here, because /readyz answers 503. All other ids are issued.",
			Do:    "Look at the counter store and at who leads each group, below.", Command: s.curl("readyz")})
	}
}

// because adds a reason to a sentence, if there is one.
func because(what, reason string) string {
	if reason == "" {
		return what + "."
	}
	return what + ": " + strings.TrimRight(reason, ".") + "."
}

// Lanes that are alike, with the worst window of them.
type likeLanes struct {
	Lane
	numbers, workers []uint64
}

// alike puts lanes with one state and one reason together: a store that is away is one finding.
func alike(lanes []Lane) (list []*likeLanes) {
	for i, l := range lanes {
		at := slices.IndexFunc(list, func(o *likeLanes) bool {
			short := o.State == "serving" || l.State == "serving" // each window is its own
			return o.State == l.State && o.Reason == l.Reason && !short
		})
		if at < 0 {
			list, at = append(list, &likeLanes{Lane: l}), len(list)
		}
		o := list[at]
		o.Left, o.For = min(o.Left, l.Left), max(o.For, l.For)
		o.numbers, o.workers = append(o.numbers, uint64(i)), append(o.workers, l.Worker)
	}
	return list
}

// counted writes "1 lease was" or "2 leases were".
func counted(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// several writes "worker id 5" or "worker ids 5, 7–9".
func several(what string, list []uint64) string {
	if len(list) > 1 {
		what += "s"
	}
	return what + " " + Ranges(list)
}

// Ranges writes numbers in order, and three or more neighbours as a range: "1–64, 70, 71".
func Ranges(list []uint64) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		if end < i+2 {
			end = i
			parts = append(parts, number(list[i]))
		} else {
			parts = append(parts, number(list[i])+"–"+number(list[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

func laneFindings(s *situation, add func(Finding)) {
	serving := slices.ContainsFunc(s.Lanes, func(l Lane) bool { return l.State == "serving" || l.State == "degraded" })
	for _, l := range alike(s.Lanes) {
		if f := s.laneFinding(l, serving); f.What != "" && !s.Stopping {
			add(f)
		}
	}
}

// laneFinding says what is wrong with lanes; an empty What means nothing. serving: a lane issues ids.
func (s *situation) laneFinding(l *likeLanes, serving bool) Finding {
	who, lane := several("worker id", l.workers), several("Lane", l.numbers)
	f := Finding{Do: s.reach(), Command: s.probe()}
	switch {
	case l.State == "degraded":
		f.Level, f.What = Soon, because("The lease of "+who+" is not extended", l.Reason)
		f.Means = "Ids are issued until the window ends, in " + span(max(0, l.Left)) + "."
		if l.Left < s.Store.Short {
			f.Level = Urgent
		}
	case l.State == "draining":
		f.Entry = "KatsubushiLeaseLost"
		f.Level, f.What = Urgent, because("The lease of "+who+" is lost", l.Reason)
		f.Means = "Its window is used for another " + span(max(0, l.Left)) +
			". Then no ids come from this lane until it gets another worker id."
		f.Do, f.Command = s.lost()
	case l.State == "exhausted":
		f.Level, f.What = Urgent, because("The window of "+who+" is used up", l.Reason)
		f.Means = "No ids come from this lane until its lease is extended."
	case l.State == "acquiring" && l.For >= slowAcquisition:
		f.Entry = "KatsubushiLaneIdle"
		f.Level, f.What = Urgent, because(lane+": no worker id for "+span(l.For.Truncate(time.Second)), l.Reason)
		f.Means = "Nothing is issued."
		if serving {
			f.Level, f.Means = Soon, "The other lanes issue ids, so the daemon can issue fewer."
		}
		if s.early() {
			f.Do, f.Command = setClock, chrony
		}
	case l.State == "waiting" && l.For >= settled:
		f.Entry = "The clock"
		f.Level, f.What = Soon, because(lane+": waiting", l.Reason)
		f.Means = "The window begins later than the clock: the clock went back, or an earlier run was ahead of it."
		f.Do, f.Command = "Wait, or see whether the clock is right.", "chronyc tracking"
	case l.State == "serving" && !l.Open && l.Left < s.Store.Short:
		f.Entry = "KatsubushiWindowShort"
		f.Level, f.What = Soon, "The window of "+who+" ends in "+span(max(0, l.Left))+"."
		f.Means = "It should be " + span(s.Store.Full) + " long after each extension, so extensions are late."
	}
	return f
}

// lost says what to do when a lease was lost.
func (s *situation) lost() (do, command string) {
	if s.Store.Kind == stateDirectory {
		return "See who deleted or replaced the state file.", "ls -l --time-style=full-iso " + s.Store.Where
	}
	return "See who has the worker id, and whether the store has lost data.", s.lease("list")
}

// early reports whether the clock is before the layout's epoch: no store is to blame then.
func (s *situation) early() bool { return s.Now.UnixMilli() < s.Layout.Epoch }

const (
	setClock = "Correct this host's clock, or -epoch."
	chrony   = "chronyc tracking"
)

// lease is a command about the pool of worker ids.
func (s *situation) lease(verb string) string {
	return "katsubushi lease " + verb + " -store " + quoted(cmp.Or(s.Store.URL, "URL"))
}

// quoted returns an argument as a shell wants it.
func quoted(s string) string {
	if strings.ContainsAny(s, "?&*;|<>$`\"' ") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// servers returns the HOST:PORT of those in a URL. port is that of those without one.
func servers(url string, port int) []string {
	u, _ := endpoint.Split(url)
	list, _ := u.Addresses(port)
	if list == nil {
		return []string{fmt.Sprint("HOST:", port)}
	}
	return list
}

// askEtcd asks etcd how it is.
func askEtcd(url string) string {
	return "etcdctl --endpoints " + strings.Join(servers(url, endpoint.EtcdPort), ",") + " endpoint status"
}

// reach says what to do when the store does not answer.
func (s *situation) reach() string {
	switch s.Store.Kind {
	case stateDirectory:
		return "See whether the disk of the state directory is full, stalls or fails."
	case noStore:
		return "See the log."
	}
	return "See whether " + s.Store.Kind + " answers from this host; if it refuses, the reason says what to correct. " +
		"The daemon goes on by itself."
}

func (s *situation) probe() string {
	switch s.Store.Kind {
	case "Redis":
		return s.redis()
	case "etcd":
		return askEtcd(s.Store.URL)
	case "ZooKeeper":
		first := servers(s.Store.URL, endpoint.ZooKeeperPort)[0]
		colon := strings.LastIndexByte(first, ':')
		return "echo srvr | nc " + first[:colon] + " " + first[colon+1:]
	case stateDirectory:
		return "df -h " + s.Store.Where + "; journalctl -k -p err -n 20"
	}
	return "journalctl -u katsubushi -n 50"
}

// redis asks the server in the URL, the one that the daemon uses, or who can say which that is.
func (s *situation) redis() string {
	u, _ := endpoint.Split(s.Store.URL)
	at := func(server string) string {
		protocol := "redis://"
		if strings.HasPrefix(u.Scheme, "rediss") || u.Scheme == "redisclusters" {
			protocol = "rediss://"
		}
		return "redis-cli -u " + protocol + server
	}
	switch sentinels := strings.HasSuffix(u.Scheme, "+sentinel"); {
	case u.Scheme == "unix":
		return "redis-cli -s " + quoted("/"+u.Path) + " ping"
	case sentinels && s.Store.Server == "":
		master, _, _ := strings.Cut(u.Path, "/")
		return at(servers(s.Store.URL, endpoint.SentinelPort)[0]) + " sentinel get-master-addr-by-name " + quoted(master)
	case sentinels || strings.HasPrefix(u.Scheme, "rediscluster"):
		return at(cmp.Or(s.Store.Server, servers(s.Store.URL, endpoint.RedisPort)[0])) + " ping"
	}
	u.Query = ""
	return "redis-cli -u " + u.String() + " ping"
}

// Kinds of Store that are no servers.
const (
	stateDirectory = "state directory"
	noStore        = "none"
)

func nameFindings(s *situation, add func(Finding)) {
	refused, ending, over := 0, 0, 0
	for _, n := range s.Names {
		switch q := n.Sequence; {
		case n.Retired && n.Lately.Refused == 0: // as was wanted
		case n.Over:
			if over++; over <= maxNameFindings {
				add(Finding{Level: Urgent, What: because(n.Name+" issues nothing any more", n.Refusal),
					Means:   "Clients that ask for this name get this error, from every daemon.",
					Do:      "Let clients ask for another sequence, defined under a new name.",
					Command: "katsubushi name show " + n.Name})
			}
		case n.Refusal != "" && (q != nil || s.NotReady == ""):
			if refused++; refused <= maxNameFindings {
				add(Finding{Level: Urgent, What: because(n.Name+" issues nothing", n.Refusal),
					Means: "Clients that ask for this name get this error; other names are not affected.",
					Do:    "docs/SEQUENCES.md says what to do for each error.", Command: "katsubushi name show " + n.Name})
			}
		case q != nil && q.DaysLeft > 0 && q.DaysLeft < 30:
			if ending++; ending <= maxNameFindings {
				add(ends(n.Name, q))
			}
		}
	}
	if more := refused - maxNameFindings; more > 0 {
		add(Finding{Level: Urgent, What: counted(uint64(more), "more name issues", "more names issue") + " nothing.",
			Means: "Clients that ask for them get errors.",
			Do:    "See which, and why.", Command: nameStats})
	}
	if more := over - maxNameFindings; more > 0 {
		what := counted(uint64(more), "more sequence issues", "more sequences issue")
		add(Finding{Level: Urgent, What: what + " nothing any more.",
			Means: "They have ended, or were retired.", Do: "See which.", Command: nameStats})
	}
	if more := ending - maxNameFindings; more > 0 {
		add(Finding{Level: Soon, What: counted(uint64(more), "more sequence ends", "more sequences end") + " within 30 days.",
			Means: "After its last value, clients of a sequence get errors.",
			Do:    "See which: days_left.", Command: nameStats})
	}
}

// nameStats is a command that shows the figures of all names.
const nameStats = "printf 'stats generators\\r\\nquit\\r\\n' | nc HOST 11212"

// ends says that a sequence ends soon.
func ends(name string, q *Sequence) Finding {
	level, days := Soon, fmt.Sprintf("%.0f days", q.DaysLeft)
	if q.DaysLeft < 2 {
		level, days = Urgent, span(time.Duration(q.DaysLeft*float64(24*time.Hour)))
	}
	means := number(uint64(max(0, q.Left))) + " values are left. After the last one, clients get errors."
	switch {
	case q.Hidden:
		means = "After the last value, clients get errors."
	case q.Left == 0:
		means = "Daemons have the last values at hand. After those, clients get errors."
	}
	return Finding{Level: level, Entry: "KatsubushiSequenceEnds",
		What:  "The sequence " + name + " ends in " + days + ", at its present rate.",
		Means: means, Do: "Define another sequence under a new name, and let clients ask for that.",
		Command: "katsubushi name show " + name}
}

func groupFindings(s *situation, add func(Finding)) {
	if s.Restart != "" {
		add(Finding{
			Level: Urgent, What: because("This daemon must be restarted", s.Restart),
			Means: "Clients that ask for sequences in strict order get errors, and /readyz answers 503. Ids are issued.",
			Do: "Raise each sequence above what was issued, if the error of name show says so. " +
				"Then restart all daemons that say this, one after another.",
			Command: "systemctl restart katsubushi",
		})
	}
	for _, g := range s.Groups {
		if g.Leader == "" && !g.Mine {
			add(Finding{Level: Urgent, What: fmt.Sprintf("No daemon leads group %d of the sequences in strict order.", g.Number),
				Means:   "Clients that ask for them wait, and then get errors.",
				Do:      "See whether etcd answers, and whether another daemon runs. A daemon takes the group over within seconds.",
				Command: askEtcd("")})
		}
	}
}
