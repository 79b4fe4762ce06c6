package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

func alarmFindings(s *situation, add func(Finding)) {
	for _, a := range s.Alarms {
		f := Finding{Level: Soon, What: because("The check of the peers has an alarm", a.Text)}
		switch a.Kind {
		case "worker_id":
			f.Entry = "KatsubushiWorkerIDTwice"
			f.Level, f.What = Urgent, because("Another daemon has a worker id of this one", a.Text)
			f.Means = "If a machine was copied or the entry was written by hand, ids may repeat."
			f.Do, f.Command = "See whose it is, and stop the other one.", s.lease("list")
		case "clock":
			f.Means, f.Command = "Ids of different hosts are not in order.", "chronyc tracking"
			f.Do = "See on each host, including this one, which clock is wrong, and correct it."
		case "fingerprint":
			f.Means, f.Do, f.Command = "Daemons of one pool must agree on layout and lease.", "Give all of them the same flags.",
				"printf 'stats settings\\r\\nquit\\r\\n' | nc HOST 11212"
		case "address":
			f.Means, f.Do = "Clients that find daemons in the store reach the wrong one.", "Compare -advertise of both."
		}
		add(f)
	}
	if n := s.Unreadable; n > 0 {
		add(Finding{Level: Note, Entry: "KatsubushiPeersUnreadable",
			What:  counted(uint64(n), "announcement", "announcements") + " cannot be read.",
			Means: "Another release or program writes where daemons announce themselves. It is not compared with this one.",
			Do:    "Check the keys in the store."})
	}
}

func reloads(s *situation, add func(Finding)) {
	if s.Unsure != "" {
		add(Finding{Level: Urgent, Entry: "Sequences", What: because("Keys that are not declared here get no ids", s.Unsure),
			Means: "Their clients get this error.", Do: "Bring the counter store back. The daemon goes on by itself."})
	}
	for _, why := range s.NotReloaded {
		add(Finding{Level: Soon, What: because("A reload failed", why), Means: "What was read before stays in force.",
			Do: "Correct the file, then send SIGHUP, or, with systemd:", Command: "systemctl reload katsubushi"})
	}
}

func timeField(s *situation, add func(Finding)) {
	left := time.UnixMilli(s.Layout.End()).Sub(s.Now)
	f := Finding{Level: Soon, Means: "No id can carry a later time: then clients get errors.",
		Do: "Plan for another layout: docs/LAYOUTS.md."}
	switch {
	case s.early():
		const form = "2006-01-02 15:04:05 MST"
		f.Level, f.Means, f.Do, f.Command = Urgent, "No id can carry a time before the epoch.", setClock, chrony
		f.What = "The clock says " + s.Now.UTC().Format(form) + ", and the layout's epoch is " +
			time.UnixMilli(s.Layout.Epoch).UTC().Format(form) + "."
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
	f := Finding{Level: Soon, Means: "Clients that check it refuse it after that.",
		Do:      "Renew the certificate, then send SIGHUP, or, with systemd:",
		Command: "systemctl reload katsubushi"}
	switch left := s.Certificate.Sub(s.Now); {
	case left <= 0:
		f.Level, f.What, f.Means = Urgent, "The TLS certificate expired "+span(-left)+" ago.",
			"Clients that check it cannot connect."
	case left < CertificateShort:
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
		add(Finding{Level: Urgent,
			What: counted(n[ConnectionsRefused], "connection was", "connections were") +
				" refused in the last minute: the limit is " + signed(s.ConnectionsLimit) + ".",
			Means: "New clients get an error and are disconnected.", Do: more, Command: s.peers()})
	case s.ConnectionsLimit > 0 && used >= s.ConnectionsLimit*9/10:
		add(Finding{Level: Soon, Entry: "KatsubushiConnectionsNearLimit",
			What:  fmt.Sprintf("%s of %s connections are open.", signed(used), signed(s.ConnectionsLimit)),
			Means: "At the limit, new clients get an error.", Do: more, Command: s.peers()})
	}
	if n[HTTPRefused] > 0 {
		add(Finding{Level: Soon, Entry: "KatsubushiHTTPConnections",
			What:  "The HTTP port refused " + counted(n[HTTPRefused], "connection", "connections") + " in the last minute.",
			Means: "All of its connections are busy. Health checks still get through.", Do: "Find the clients " +
				"that use HTTP so much."})
	}
	if n[AcceptErrors] > 0 {
		add(Finding{Level: Soon, Entry: "KatsubushiAcceptFails",
			What:  "Accepting a connection failed " + counted(n[AcceptErrors], "time", "times") + " in the last minute.",
			Means: "The process may have no file descriptors left.", Do: "Raise the limit of open files.",
			Command: "grep 'open files' /proc/$(pidof katsubushi)/limits"})
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
		{ClockBehind, "the clock is behind the last id",
			"The clock went back by more than the run-ahead. It goes on by itself when the clock has caught up.",
			"See who sets this clock. Do not delete the state file.", "chronyc tracking", false},
		{RateExceeded, "the id rate is exceeded", "Clients ask for more ids than the worker ids have.",
			"Give the daemon more lanes: -worker-id 1-4, or -lanes 4. Or ask more daemons.", "", false},
		{TimeFieldEnd, "the time field has ended", "No id can carry the present time.",
			"Choose another layout: docs/LAYOUTS.md.", "", false},
	} {
		if n := s.minute[r.of]; n > 0 && (!r.onlyIfItIsReady || s.NotReady == "") {
			level := Urgent
			if r.onlyIfItIsReady {
				level = Soon
			}
			add(Finding{Level: level,
				What: counted(n, "request was", "requests were") + " refused in the last minute: " + r.why + ".", Means: r.means,
				Do: r.do, Command: r.command})
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
			Means: "The wall clock was set, or is wrong. Ids stay unique; their times are not those of the wall clock.",
			Do:    "See who sets this clock.", Command: "chronyc tracking"})
	}
	if n := s.all[ClockStepped]; n > 0 {
		add(Finding{Level: Note,
			What:  "The clock was set, or the machine slept: " + counted(n, "time", "times") + " in the last 10 minutes.",
			Means: "Ids stay unique. Their times may jump.", Do: "Let one program set the clock, and let it slew.",
			Command: "chronyc tracking"})
	}
}

func storeFindings(s *situation, add func(Finding)) {
	troubled := slices.ContainsFunc(s.Lanes, func(l Lane) bool { // its lane says so already
		return l.State == "degraded" || l.State == "exhausted" || l.State == "acquiring" && l.For >= slowAcquisition
	})
	if n := s.minute[StoreFailed]; n > 0 && !troubled {
		means := "Windows are still long enough. If it goes on, ids stop."
		if s.NotReady != "" {
			means = "Ids may be issued again when it answers."
		}
		why := ""
		if at := slices.IndexFunc(s.Lanes, func(l Lane) bool { return l.Reason != "" }); at >= 0 {
			why = s.Lanes[at].Reason
		}
		add(Finding{Level: Soon, What: because(counted(n, "call", "calls")+" of the store failed in the last minute", why),
			Means: means, Do: s.reach(), Command: s.probe()})
	}
	if n := s.all[StoreLost]; n > 0 {
		do, command := s.lost()
		add(Finding{Level: Soon, Entry: "KatsubushiLeaseLost",
			What: counted(n, "lease was", "leases were") + " lost in the last 10 minutes.",
			Means: "The store lost data, or an operator used lease release or deleted keys or a state file. No id is issued " +
				"twice.", Do: do, Command: command})
	}
	if off, limit := s.Store.ClockOff, s.Store.MaxSkew; limit > 0 && off.Abs() > limit/2 {
		add(Finding{Level: Soon, Entry: "KatsubushiClocksApart",
			What:  "The clock of " + s.Store.Kind + " and this one's are " + span(off.Abs()) + " apart.",
			Means: "At " + span(limit) + " (-max-skew) leases are not extended any more.",
			Do:    "Correct the wrong clock, there or here.", Command: "chronyc tracking"})
	}
	if st := s.Store; st.Unwritten != "" && !troubled {
		add(Finding{Level: Urgent, Entry: "The state directory and its disk",
			What:  because("State files are not written", st.Unwritten),
			Means: "Ids go on for another " + span(max(0, st.Left)) + ".", Do: s.reach(), Command: s.probe()})
	}
	if st := s.Store; st.Replicas < st.Needed {
		add(Finding{Level: Urgent, Entry: "KatsubushiReplicasMissing",
			What: fmt.Sprintf("%d of %d replicas of Redis are connected that must have a lease before it counts.", st.Replicas,
				st.Needed),
			Means: "Leases are not extended.", Do: "Bring the replica back, or say how many must have a lease.",
			Command: s.lease("replicas")})
	}
	if w := s.Store.Wait; w > 0 {
		add(Finding{Level: Note, Entry: "KatsubushiStoreForgot",
			What:  "The store may have forgotten leases: newcomers get worker ids in " + span(w) + ".",
			Means: "An earlier state was restored, or the store was wiped.", Do: "Wait."})
	}
	if s.NotAnnounced != "" {
		add(s.notAnnounced())
	} else if n := s.minute[AnnounceErrors]; n > 0 {
		add(Finding{Level: Soon, Entry: "KatsubushiNotAnnounced",
			What:  counted(n, "announcement", "announcements") + " failed in the last minute.",
			Means: "Clients that find daemons in the store may not find this one.", Do: s.reach(), Command: s.probe()})
	}
}

// notAnnounced says what to do where the store refuses the announcement, which goes on until somebody changes that.
func (s *situation) notAnnounced() Finding {
	f := Finding{Level: Soon, Entry: "KatsubushiNotAnnounced",
		What:  because("The store refuses to announce this daemon", s.NotAnnounced),
		Means: "Clients and other daemons do not find it in the store. It issues ids as before.",
		Do:    "See in the log what the store refuses. -announce off does without."}
	if s.Store.Kind == "Redis" && strings.HasPrefix(s.NotAnnounced, "NOPERM") {
		keys := "NAME:*"
		if u, _ := endpoint.Split(s.Store.URL); strings.Contains("&"+u.Query, "&ns=") {
			_, ns, _ := strings.Cut("&"+u.Query, "&ns=")
			ns, _, _ = strings.Cut(ns, "&")
			keys = ns + ":*"
			if strings.HasPrefix(u.Scheme, "rediscluster") {
				keys = "{" + ns + "}:*"
			}
		}
		f.Do = "Give the daemon's user these rights on each server, and in its users file. -announce off does without."
		server, known := strings.CutSuffix(s.redis(), " ping")
		if !known { // only Sentinels are
			server = "redis-cli -h MASTER"
		}
		f.Command = server + " acl setuser USER " + quoted("~"+keys) + " +set +getrange +zadd +zrem +zrange +zrangebyscore"
	}
	return f
}

func memory(s *situation, add func(Finding)) {
	const do = "Find clients that do not read their answers, or raise -max-buffer-memory."
	switch n := s.all[MemoryClosed]; {
	case n > 0:
		add(Finding{Level: Soon,
			What: counted(n, "connection was", "connections were") +
				" closed in the last 10 minutes for holding most of the memory.",
			Means: "Their clients did not read, or did not end their lines.", Do: do})
	case s.BuffersLimit > 0 && s.Buffers > s.BuffersLimit/10*9:
		add(Finding{Level: Soon, What: "Buffers hold " + size(s.Buffers) + " of " + size(s.BuffersLimit) + ".",
			Means: "At the limit, the connections that hold most are closed.", Do: do})
	}
}

func runAhead(s *situation, add func(Finding)) {
	for _, l := range s.Lanes {
		if l.HasWorker && l.State == "serving" && l.For > settled && s.RunAhead > 0 && l.RunAhead > s.RunAhead/10*9 {
			add(Finding{Level: Soon,
				What: fmt.Sprintf("Worker id %d is %s ahead of the clock; the limit is %s.", l.Worker, span(l.RunAhead),
					span(s.RunAhead)),
				Means: "Nearly all ids that the layout has are used. Requests for many ids are refused first.",
				Do:    "Give the daemon more lanes: -worker-id 1-4, or -lanes 4."})
		}
	}
}

func logAndLogins(s *situation, add func(Finding)) {
	if n := s.all[LogDropped]; n > 0 {
		add(Finding{Level: Note,
			What:  counted(n, "line of the log was", "lines of the log were") + " dropped in the last 10 minutes.",
			Means: "No program reads the log, or its disk is full or stalls. Requests are not affected.",
			Do:    "See where the log goes.", Command: "systemctl status systemd-journald"})
	}
	if n := s.minute[LoginErrors]; n > 0 {
		add(Finding{Level: Note, Entry: "KatsubushiLoginsFail",
			What:  counted(n, "login", "logins") + " failed in the last minute.",
			Means: "A client has a wrong password, or an attacker guesses. The daemon slows guesses down.",
			Do:    "The log names the peer that sent most.", Command: "journalctl -u katsubushi -g 'logins failed'"})
	}
}

func record(s *situation, add func(Finding)) {
	if s.Store.Kind == noStore {
		add(Finding{Level: Note, What: "This daemon keeps no record: -state-dir is none, or could not be used.",
			Means: "If this host's clock goes back, the next run may issue ids again.",
			Do:    "Give the daemon a directory on a local disk, with -state-dir."})
	}
}
