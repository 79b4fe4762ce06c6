package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
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
	rule            string // that found it
}

const (
	shortTimeField   = 2 * 365 * 24 * time.Hour
	farAway          = 1e6 // days that a sequence lasts at least that does not end, as issuer has it
	slowAcquisition  = 15 * time.Second
	settled          = 10 * time.Second // a lane that serves for less may be as far ahead as it can be
	maxFindings      = 20
	maxNameFindings  = 3 // that issue nothing, and as many that end: a store that is away must not hide the rest
	clockApart       = 500 * time.Millisecond
	certificateShort = 14 * 24 * time.Hour
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
	{"not ready", notReady}, {"lanes", laneFindings}, {"names", nameFindings}, {"groups", groupFindings}, {"alarms", alarmFindings},
	{"time field", timeField}, {"certificate", certificate}, {"connections", connectionFindings}, {"refusals", refusals},
	{"clock", clockFindings}, {"store", storeFindings}, {"memory", memory}, {"run-ahead", runAhead}, {"log", logAndLogins}, {"record", record},
}

// findings returns what is wrong, the worst first; more is the number of those that are left out.
func findings(v *View, list []Sample) (found []Finding, more int) {
	s := &situation{View: v, minute: growth(list, &v.Sample, time.Minute), all: growth(list, &v.Sample, Span)}
	for _, r := range rules {
		r.find(s, func(f Finding) {
			f.rule = r.name
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
		if a, err := netip.ParseAddrPort(p.Address); err == nil && !slices.Contains([]string{httpPort, "admin", "debug"}, p.Name) {
			ports = append(ports, fmt.Sprint("sport = :", a.Port()))
		}
	}
	filter := ""
	if len(ports) > 0 { // none where there is only a unix socket
		filter = "'" + strings.Join(ports, " or ") + "' "
	}
	return "ss -Htn state established " + filter + "| awk '{print $4}' | sed 's/:[0-9]*$//' | sort | uniq -c | sort -n | tail"
}

func notReady(s *situation, add func(Finding)) {
	switch {
	case s.Stopping:
		add(Finding{Level: Note, What: "The daemon is shutting down.", Means: "It answers what was asked and then ends. Load balancers see that it is not ready.",
			Do: "Nothing, if somebody stopped it."})
	case s.NotReady != "":
		add(Finding{Level: Urgent, What: "No ids are issued: " + s.NotReady + ".", Means: "Clients get this error instead of an id, and /readyz answers 503.",
			Do: "Look at what each worker id waits for, below.", Command: s.curl("readyz")})
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
	numbers, workers []string
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
		o.numbers, o.workers = append(o.numbers, strconv.Itoa(i)), append(o.workers, number(l.Worker))
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

// several writes "worker id 5" or "worker ids 5, 6".
func several(what string, list []string) string {
	if len(list) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(list, ", ")
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
		f.Level, f.What = Urgent, because("The lease of "+who+" is lost", l.Reason)
		f.Means = "Its window is used for another " + span(max(0, l.Left)) + ". Then no ids come from this lane until it gets another worker id."
		f.Do, f.Command = "See who has the worker id, and whether the store has lost data.", "katsubushi lease list -store URL"
	case l.State == "exhausted":
		f.Level, f.What = Urgent, because("The window of "+who+" is used up", l.Reason)
		f.Means = "No ids come from this lane until its lease is extended."
	case l.State == "acquiring" && l.For >= slowAcquisition:
		f.Level, f.What = Urgent, because(lane+": no worker id for "+span(l.For.Truncate(time.Second)), l.Reason)
		f.Means = "Nothing is issued."
		if serving {
			f.Level, f.Means = Soon, "The other lanes issue ids, so the daemon can issue fewer."
		}
	case l.State == "waiting" && l.For >= settled:
		f.Level, f.What = Soon, because(lane+": waiting", l.Reason)
		f.Means = "The window begins later than the clock: the clock went back, or an earlier run was ahead of it."
		f.Do, f.Command = "Wait, or see whether the clock is right.", "chronyc tracking"
	case l.State == "serving" && !l.Open && l.Left < s.Store.Short:
		f.Level, f.What = Soon, "The window of "+who+" ends in "+span(max(0, l.Left))+"."
		f.Means = "It should be " + span(s.Store.Full) + " long after each extension, so extensions are late."
	}
	return f
}

// reach says what to do when the store does not answer.
func (s *situation) reach() string {
	switch s.Store.Kind {
	case stateDirectory:
		return "See whether the disk of the state directory is full, stalls or fails."
	case noStore:
		return "The log says more."
	}
	return "See whether " + s.Store.Kind + " answers from this host. The daemon goes on by itself when it does."
}

func (s *situation) probe() string {
	switch s.Store.Kind {
	case "Redis":
		return "redis-cli -u URL ping"
	case "etcd":
		return "etcdctl --endpoints HOST:2379 endpoint status"
	case "ZooKeeper":
		return "echo srvr | nc HOST 2181"
	case stateDirectory:
		return "df -h " + s.Store.Where + "; journalctl -k -p err -n 20"
	}
	return "journalctl -u katsubushi -n 50"
}

// Kinds of Store that are no servers.
const (
	stateDirectory = "state directory"
	noStore        = "none"
)

func nameFindings(s *situation, add func(Finding)) {
	refused, ending := 0, 0
	for _, n := range s.Names {
		switch q := n.Sequence; {
		case n.Refusal != "" && (q != nil || s.NotReady == ""):
			if refused++; refused <= maxNameFindings {
				add(Finding{Level: Urgent, What: because(n.Name+" issues nothing", n.Refusal), Means: "Clients that ask for this name get this error; other names are not affected.",
					Do: "docs/SEQUENCES.md says what to do for each error.", Command: "katsubushi generator show " + n.Name})
			}
		case q != nil && q.DaysLeft > 0 && q.DaysLeft < 30:
			if ending++; ending <= maxNameFindings {
				add(ends(n.Name, q))
			}
		}
	}
	if more := refused - maxNameFindings; more > 0 {
		add(Finding{Level: Urgent, What: counted(uint64(more), "more name issues", "more names issue") + " nothing.", Means: "Clients that ask for them get errors.",
			Do: "See which, and why.", Command: generatorStats})
	}
	if more := ending - maxNameFindings; more > 0 {
		add(Finding{Level: Soon, What: counted(uint64(more), "more sequence ends", "more sequences end") + " within 30 days.", Means: "After its last value, clients of a sequence get errors.",
			Do: "See which: days_left.", Command: generatorStats})
	}
}

// generatorStats is a command that shows the figures of all names.
const generatorStats = "printf 'stats generators\\r\\nquit\\r\\n' | nc HOST 11212"

// ends says that a sequence ends soon.
func ends(name string, q *Sequence) Finding {
	level, days := Soon, fmt.Sprintf("%.0f days", q.DaysLeft)
	if q.DaysLeft < 2 {
		level, days = Urgent, span(time.Duration(q.DaysLeft*24)*time.Hour)
	}
	return Finding{Level: level, What: "The sequence " + name + " ends in " + days + ", at its present rate.", Means: number(uint64(max(0, q.Left))) + " values are left. After the last one, clients get errors.",
		Do: "Define another sequence under a new name, and let clients ask for that.", Command: "katsubushi generator show " + name}
}

func groupFindings(s *situation, add func(Finding)) {
	for _, g := range s.Groups {
		if g.Leader == "" && !g.Mine {
			add(Finding{Level: Urgent, What: fmt.Sprintf("No daemon leads group %d of the sequences in strict order.", g.Number), Means: "Clients that ask for them wait, and then get errors.",
				Do: "See whether etcd answers, and whether another daemon runs. A daemon takes the group over within seconds.", Command: "etcdctl --endpoints HOST:2379 endpoint status"})
		}
	}
}

func alarmFindings(s *situation, add func(Finding)) {
	for _, a := range s.Alarms {
		f := Finding{Level: Soon, What: because("The check of the peers has an alarm", a.Text)}
		switch a.Kind {
		case "worker_id":
			f.Level, f.What = Urgent, because("Another daemon has a worker id of this one", a.Text)
			f.Means, f.Do, f.Command = "Ids may be issued twice, if somebody copied a machine or wrote the entry by hand.", "See whose it is, and stop the other one.", "katsubushi lease list -store URL"
		case "clock":
			f.Means, f.Do, f.Command = "Ids of different hosts are not in order, and a pool in Redis needs clocks that agree.", "Set the wrong clock right.", "chronyc tracking"
		case "fingerprint":
			f.Means, f.Do, f.Command = "Daemons of one pool must agree on layout and lease.", "Give all of them the same flags.", "printf 'stats settings\\r\\nquit\\r\\n' | nc HOST 11212"
		case "address":
			f.Means, f.Do = "Clients that find daemons in the store reach the wrong one.", "Compare -advertise of both."
		}
		add(f)
	}
}

func timeField(s *situation, add func(Finding)) {
	left := time.UnixMilli(s.Layout.End()).Sub(s.Now)
	f := Finding{Level: Soon, Means: "No id can carry a later time: then clients get errors.", Do: "Plan for another layout: docs/LAYOUTS.md."}
	switch {
	case left <= 0:
		f.Level, f.What = Urgent, "The time field of the layout has ended."
	case left < 30*24*time.Hour:
		f.Level, f.What = Urgent, "The time field of the layout ends in "+span(left)+"."
	case left < shortTimeField:
		f.What = "The time field of the layout ends in " + span(left) + "."
	default:
		return
	}
	add(f)
}

func certificate(s *situation, add func(Finding)) {
	if s.Certificate.IsZero() {
		return
	}
	f := Finding{Level: Soon, Means: "Clients that check it refuse it after that.", Do: "Renew the certificate, then let the daemon read it.", Command: "systemctl reload katsubushi"}
	switch left := s.Certificate.Sub(s.Now); {
	case left <= 0:
		f.Level, f.What, f.Means = Urgent, "The TLS certificate expired "+span(-left)+" ago.", "Clients that check it cannot connect."
	case left < certificateShort:
		f.What = "The TLS certificate expires in " + span(left) + "."
	default:
		return
	}
	add(f)
}

func connectionFindings(s *situation, add func(Finding)) {
	const more = "Raise -max-connections and the limit of open files, or find clients that open too many."
	n := s.minute
	switch used := s.Connections; {
	case n[ConnectionsRefused] > 0:
		add(Finding{Level: Urgent, What: counted(n[ConnectionsRefused], "connection was", "connections were") + " refused in the last minute: the limit is " + signed(s.ConnectionsLimit) + ".",
			Means: "New clients get an error and are disconnected.", Do: more, Command: s.peers()})
	case s.ConnectionsLimit > 0 && used >= s.ConnectionsLimit*9/10:
		add(Finding{Level: Soon, What: fmt.Sprintf("%s of %s connections are open.", signed(used), signed(s.ConnectionsLimit)),
			Means: "At the limit, new clients get an error.", Do: more, Command: s.peers()})
	}
	if n[HTTPRefused] > 0 {
		add(Finding{Level: Soon, What: "The HTTP port refused " + counted(n[HTTPRefused], "connection", "connections") + " in the last minute.",
			Means: "All of its connections are busy. Health checks still get through.", Do: "See who asks so much over HTTP."})
	}
	if n[AcceptErrors] > 0 {
		add(Finding{Level: Soon, What: "Accepting a connection failed " + counted(n[AcceptErrors], "time", "times") + " in the last minute.",
			Means: "The process may have no file descriptors left.", Do: "Raise the limit of open files.", Command: "grep 'open files' /proc/$(pidof katsubushi)/limits"})
	}
}

func refusals(s *situation, add func(Finding)) {
	for _, r := range []struct {
		of              Trouble
		why, means, do  string
		command         string
		onlyIfItIsReady bool
	}{
		{NoWorkerID, "there was no worker id", "Clients got errors.", "The last events below say when and why.", "", true},
		{LeaseExpired, "a lease had expired", "Clients got errors.", s.reach(), s.probe(), true},
		{ClockBehind, "the clock is behind the last id", "The clock went back by more than the run-ahead. It goes on by itself when the clock has caught up.", "See who sets this clock. Do not delete the state file.", "chronyc tracking", false},
		{RateExceeded, "the id rate is exceeded", "More ids are asked for than the worker ids have.", "Give the daemon more lanes: -worker-id 1-4, or -lanes 4. Or ask more daemons.", "", false},
		{TimeFieldEnd, "the time field has ended", "No id can carry the present time.", "Choose another layout: docs/LAYOUTS.md.", "", false},
	} {
		if n := s.minute[r.of]; n > 0 && (!r.onlyIfItIsReady || s.NotReady == "") {
			level := Urgent
			if r.onlyIfItIsReady {
				level = Soon
			}
			add(Finding{Level: level, What: counted(n, "request was", "requests were") + " refused in the last minute: " + r.why + ".", Means: r.means, Do: r.do, Command: r.command})
		}
	}
}

func clockFindings(s *situation, add func(Finding)) {
	if d := s.ClockDifference; d >= clockApart || d <= -clockApart {
		where := "ahead of"
		if d < 0 {
			where = "behind"
		}
		add(Finding{Level: Soon, What: "The wall clock is " + span(d.Abs()) + " " + where + " the id clock.",
			Means: "The wall clock was set, or is wrong. Ids stay unique; their times are not those of the wall clock.", Do: "See who sets this clock.", Command: "chronyc tracking"})
	}
	if n := s.all[ClockStepped]; n > 0 {
		add(Finding{Level: Note, What: "The clock was set, or the machine slept: " + counted(n, "time", "times") + " in the last 10 minutes.",
			Means: "Ids stay unique. Their times may jump.", Do: "Let one program set the clock, and let it slew.", Command: "chronyc tracking"})
	}
}

func storeFindings(s *situation, add func(Finding)) {
	troubled := slices.ContainsFunc(s.Lanes, func(l Lane) bool { // its lane says so already
		return l.State == "degraded" || l.State == "exhausted" || l.State == "acquiring" && l.For >= slowAcquisition
	})
	if n := s.minute[StoreFailed]; n > 0 && !troubled {
		add(Finding{Level: Soon, What: counted(n, "call", "calls") + " of the store failed in the last minute.",
			Means: "Windows are still long enough. If it goes on, ids stop.", Do: s.reach(), Command: s.probe()})
	}
	if n := s.all[StoreLost]; n > 0 {
		add(Finding{Level: Soon, What: counted(n, "lease was", "leases were") + " lost in the last 10 minutes.",
			Means: "The store lost data, somebody used lease release, or keys are deleted. No id is issued twice.", Do: "See what happened to the store.", Command: "katsubushi lease list -store URL"})
	}
	if off, limit := s.Store.ClockOff, s.Store.MaxSkew; limit > 0 && off.Abs() > limit/2 {
		add(Finding{Level: Soon, What: "The clock of " + s.Store.Kind + " and this one's are " + span(off.Abs()) + " apart.",
			Means: "At " + span(limit) + " (-max-skew) leases are not extended any more.", Do: "Set the wrong clock right, there or here.", Command: "chronyc tracking"})
	}
	if st := s.Store; st.Replicas < st.Needed {
		add(Finding{Level: Urgent, What: fmt.Sprintf("%d of %d replicas of Redis are connected that must have a lease before it counts.", st.Replicas, st.Needed),
			Means: "Leases are not extended.", Do: "Bring the replica back, or say how many must have a lease.", Command: "katsubushi lease replicas -store URL"})
	}
	if w := s.Store.Wait; w > 0 {
		add(Finding{Level: Note, What: "The store may have forgotten leases: newcomers get worker ids in " + span(w) + ".",
			Means: "An earlier state was restored, or the store was wiped.", Do: "Wait."})
	}
	if n := s.minute[AnnounceErrors]; n > 0 {
		add(Finding{Level: Soon, What: counted(n, "announcement", "announcements") + " failed in the last minute.",
			Means: "Clients that find daemons in the store may not find this one.", Do: s.reach(), Command: s.probe()})
	}
}

func memory(s *situation, add func(Finding)) {
	const do = "Find clients that do not read their answers, or raise -max-buffer-memory."
	switch n := s.all[MemoryClosed]; {
	case n > 0:
		add(Finding{Level: Soon, What: counted(n, "connection was", "connections were") + " closed in the last 10 minutes for holding most of the memory.",
			Means: "Their clients did not read, or did not end their lines.", Do: do})
	case s.BuffersLimit > 0 && s.Buffers > s.BuffersLimit/10*9:
		add(Finding{Level: Soon, What: "Buffers hold " + size(s.Buffers) + " of " + size(s.BuffersLimit) + ".", Means: "At the limit, the connections that hold most are closed.", Do: do})
	}
}

func runAhead(s *situation, add func(Finding)) {
	for _, l := range s.Lanes {
		if l.HasWorker && l.State == "serving" && l.For > settled && s.RunAhead > 0 && l.RunAhead > s.RunAhead/10*9 {
			add(Finding{Level: Soon, What: fmt.Sprintf("Worker id %d is %s ahead of the clock; the limit is %s.", l.Worker, span(l.RunAhead), span(s.RunAhead)),
				Means: "Nearly all ids that the layout has are used. Requests for many ids are refused first.", Do: "Give the daemon more lanes: -worker-id 1-4, or -lanes 4."})
		}
	}
}

func logAndLogins(s *situation, add func(Finding)) {
	if n := s.all[LogDropped]; n > 0 {
		add(Finding{Level: Note, What: counted(n, "line of the log was", "lines of the log were") + " dropped in the last 10 minutes.",
			Means: "Nobody reads the log, or its disk is full or stalls. Nothing else is affected.", Do: "See where the log goes.", Command: "systemctl status systemd-journald"})
	}
	if n := s.minute[LoginErrors]; n > 0 {
		add(Finding{Level: Note, What: counted(n, "login", "logins") + " failed in the last minute.",
			Means: "A client has a wrong password, or somebody guesses. Guessing is slowed down.", Do: "The log names the peer that sent most.", Command: "journalctl -u katsubushi -g 'logins failed'"})
	}
}

func record(s *situation, add func(Finding)) {
	if s.Store.Kind == noStore {
		add(Finding{Level: Note, What: "Nothing is recorded: -state-dir is none, or could not be used.", Means: "If this host's clock goes back, the next run may issue ids again.",
			Do: "Give the daemon a directory on a local disk, with -state-dir."})
	}
}
