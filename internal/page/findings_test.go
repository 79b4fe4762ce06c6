package page

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A row is a change of a healthy view, and what is then found.
type row struct {
	rule   string
	change func(v *View)
	level  Level
	what   string // the finding; empty = none
	also   string // a part of its meaning, advice or command; empty = whatever
}

// grown lets a trouble have happened in the last minute.
func grown(t Trouble, n uint64) func(*View) { return func(v *View) { v.Troubles[t] += n } }

// lane changes the first lane.
func lane(change func(l *Lane)) func(*View) { return func(v *View) { change(&v.Lanes[0]) } }

// redis is a lease that is not extended, with the store's URL and the server that the daemon uses.
func redis(url, server string) func(*View) {
	return func(v *View) { v.Store.URL, v.Store.Server, v.Lanes[0].State = url, server, "degraded" }
}

func rows() []row {
	const day = 24 * time.Hour
	end := healthy().Layout.End()
	retired := func(refused uint64) func(*View) {
		return func(v *View) {
			n := &v.Names[0]
			n.Refusal, n.Over, n.Retired, n.Lately.Refused = "it is retired", true, true, refused
		}
	}
	sequence := func(days float64, left int64) func(*View) {
		return func(v *View) { v.Names[0].Sequence.DaysLeft, v.Names[0].Sequence.Left = days, left }
	}
	at := func(left time.Duration) func(*View) {
		return func(v *View) {
			v.Now = time.UnixMilli(end).Add(-left)
			v.Certificate, v.At = time.Time{}, v.Now
		}
	}
	early := func(v *View) {
		v.Now = time.UnixMilli(v.Layout.Epoch).Add(-time.Second)
		v.Certificate, v.At = time.Time{}, v.Now
	}
	return []row{
		{"not ready", func(v *View) {
			v.NotReady = "no worker id yet"
		}, Urgent, "No ids are issued: no worker id yet.", "curl -s http://127.0.0.1:8081/readyz"},
		{"not ready", func(v *View) {
			v.NotReady, v.Ports[1].Address = "none", "10.0.0.8:8081"
		}, Urgent, "No ids are issued: none.", "curl -s http://10.0.0.8:8081/readyz"},
		{"not ready", func(v *View) { v.Stopping = true }, Note, "The daemon is shutting down.", "Nothing, if"},

		{"lanes", lane(func(l *Lane) {
			l.State, l.Reason = "degraded", "timeout."
		}), Soon, "The lease of worker id 501 is not extended: timeout.", "in 52.0 s"},
		{"lanes", lane(func(l *Lane) { l.State, l.Left = "degraded", 14*time.Second }), Urgent,
			"The lease of worker id 501 is not extended.", "redis-cli -u redis://10.0.0.5:6379/1 ping"},
		{"lanes", lane(func(l *Lane) {
			l.State, l.Left = "degraded", -time.Second
		}), Urgent, "The lease of worker id 501 is not extended.", "in 0 s"},
		{"lanes", lane(func(l *Lane) {
			l.State, l.Reason = "draining", "taken"
		}), Urgent, "The lease of worker id 501 is lost: taken.", "lease list"},
		{"lanes", lane(func(l *Lane) {
			l.State = "exhausted"
		}), Urgent, "The window of worker id 501 is used up.", "until its lease is extended"},
		{"lanes", lane(func(l *Lane) {
			l.State, l.HasWorker, l.For, l.Reason = "acquiring", false, 15*time.Second, "none is free"
		}), Soon, "Lanes 0, 2: no worker id for 15.0 s: none is free.", "other lanes"},
		{"lanes", func(v *View) {
			v.Lanes = []Lane{{State: "acquiring", For: time.Minute}}
		}, Urgent, "Lane 0: no worker id for 1 min.", "Nothing is issued"},
		{"lanes", lane(func(l *Lane) { l.State, l.For = "acquiring", 14*time.Second }), 0, "", ""},
		{"lanes", lane(func(l *Lane) {
			l.State, l.For, l.Reason = "waiting", 10*time.Second, "in 3 s"
		}), Soon, "Lane 0: waiting: in 3 s.", "chronyc"},
		{"lanes", lane(func(l *Lane) { l.State, l.For = "waiting", 9*time.Second }), 0, "", ""},
		{"not ready", func(v *View) {
			v.Stopping, v.Lanes[0].State = true, "exhausted"
		}, Note, "The daemon is shutting down.", ""},
		{"not ready", func(v *View) {
			v.NotReady, v.Troubles[NoWorkerID], v.Troubles[LeaseExpired] = "none", 7, 8
		}, Urgent, "No ids are issued: none.", ""},
		// of the default kind
		{"not ready", func(v *View) {
			v.NotReady, v.Names[2].Refusal = "none", "none"
		}, Urgent, "No ids are issued: none.", ""},
		{"lanes", func(v *View) {
			v.Lanes[1] = Lane{Worker: 502, HasWorker: true, State: "degraded", Reason: "timeout", Left: 41 * time.Second}
			v.Lanes[0].State, v.Lanes[0].Reason = "degraded", "timeout"
		}, Soon, "The lease of worker ids 501, 502 is not extended: timeout.", "in 41.0 s"},
		{"lanes", lane(func(l *Lane) {
			l.Left = 14 * time.Second
		}), Soon, "The window of worker id 501 ends in 14.0 s.", "1 min long"},
		{"lanes", lane(func(l *Lane) { l.Left = 15 * time.Second }), 0, "", ""},
		{"lanes", lane(func(l *Lane) { l.Left, l.Open = 0, true }), 0, "", ""},
		{"lanes", func(v *View) {
			v.Store.Kind, v.Store.URL, v.Lanes[0].State = "etcd", "etcds://a:2379,b:1/x?ns=n", "degraded"
		}, Soon, "The lease of worker id 501 is not extended.", "etcdctl --endpoints a:2379,b:1 endpoint status"},
		{"lanes", func(v *View) {
			v.Store.Kind, v.Store.URL, v.Lanes[0].State = "ZooKeeper", "zookeeper://a:2182,b/x", "degraded"
		}, Soon, "The lease of worker id 501 is not extended.", "nc a 2182"},
		{"lanes", func(v *View) {
			v.Store.Kind, v.Store.URL, v.Lanes[0].State = "ZooKeeper", "zookeeper://a", "degraded"
		}, Soon, "The lease of worker id 501 is not extended.", "nc a 2181"},
		{"lanes", redis("redis+sentinel://a,b/m?ns=n", "10.0.0.6:6379"), Soon,
			"The lease of worker id 501 is not extended.", "redis-cli -u redis://10.0.0.6:6379 ping"},
		{"lanes", redis("redis+sentinel://u:xxxxx@a,b:26380/m/2?ns=n", ""), Soon,
			"The lease of worker id 501 is not extended.",
			"redis-cli -u redis://a:26379 sentinel get-master-addr-by-name m"},
		{"lanes", redis("rediss+sentinel://b:26380,a/m", ""), Soon, "The lease of worker id 501 is not extended.",
			"redis-cli -u rediss://b:26380 sentinel get-master-addr-by-name m"},
		{"lanes", redis("rediss+sentinel://b/m", "10.0.0.6:6379"), Soon, "The lease of worker id 501 is not extended.",
			"redis-cli -u rediss://10.0.0.6:6379 ping"},
		{"lanes", redis("redisclusters://[::1],b", ""), Soon, "The lease of worker id 501 is not extended.",
			"redis-cli -u rediss://[::1]:6379 ping"},
		{"lanes", redis("unix:///run/redis.sock?db=1", ""), Soon, "The lease of worker id 501 is not extended.",
			"redis-cli -s /run/redis.sock ping"},
		{"lanes", lane(func(l *Lane) { l.State = "draining" }), Urgent, "The lease of worker id 501 is lost.",
			"katsubushi lease list -store 'redis://10.0.0.5:6379/1?ns=ids'"},
		{"lanes", func(v *View) {
			v.Lanes = nil
			for w := range uint64(64) {
				l := Lane{Worker: 1 + w + w/63, HasWorker: true, State: "degraded", Left: 50 * time.Second}
				v.Lanes = append(v.Lanes, l)
			}
		}, Soon, "The lease of worker ids 1–63, 65 is not extended.", ""},
		{"not ready", func(v *View) { v.NotReady, v.Closed = "none", true }, Urgent,
			"No ids are issued: none.", "clients cannot connect"},
		{"not ready", func(v *View) { v.NotReady = "none" }, Urgent,
			"No ids are issued: none.", "Clients get this error"},
		{"not ready", func(v *View) { v.NoStrict = "none" }, Urgent,
			"No ids are issued in strict order: none.", "All other ids are issued"},
		{"reload", func(v *View) { v.NotReloaded = []string{"users: no such file"} }, Soon,
			"A reload failed: users: no such file.", "send SIGHUP, or"},
		{"lanes", func(v *View) {
			v.Store, v.Lanes[0].State = Store{Kind: stateDirectory, Where: "/var/lib/k"}, "degraded"
		}, Soon, "The lease of worker id 501 is not extended.", "df -h /var/lib/k"},

		{"names", func(v *View) {
			v.Names[0].Refusal = "disk full"
		}, Urgent, "orders issues nothing: disk full.", "katsubushi name show orders"},
		{"names", func(v *View) {
			v.Names[2].Refusal = "the time field of uuid7 ended"
		}, Urgent, "sessions issues nothing: the time field of uuid7 ended.", ""},
		{"names", func(v *View) { v.Names[0].Refusal, v.Names[0].Over = "it has ended at 9", true }, Urgent,
			"orders issues nothing any more: it has ended at 9.", "new name"},
		{"names", retired(0), 0, "", ""},
		{"names", retired(1), Urgent, "orders issues nothing any more: it is retired.", "new name"},
		{"names", sequence(29.6, 92000), Soon, "The sequence orders ends in 30 days, at its present rate.", "92,000 values"},
		{"names", sequence(1.5, 92000), Urgent, "The sequence orders ends in 1 d 12 h, at its present rate.", "new name"},
		{"names", sequence(30, 92000), 0, "", ""},
		{"names", sequence(0, 0), 0, "", ""}, // its leader knows
		{"groups", func(v *View) {
			v.Groups[0].Leader = ""
		}, Urgent, "No daemon leads group 3 of the sequences in strict order.", "etcdctl"},
		{"groups", func(v *View) { v.Groups[1].Leader = "" }, 0, "", ""}, // this one does
		{"groups", func(v *View) { v.Restart = "x" }, Urgent, "This daemon must be restarted: x.", "restart all"},

		{"alarms", func(v *View) {
			v.Alarms = []Alarm{{"worker_id", "10.0.0.9 has 501"}}
		}, Urgent, "Another daemon has a worker id of this one: 10.0.0.9 has 501.", "lease list"},
		{"alarms", func(v *View) {
			v.Alarms = []Alarm{{"clock", "11s off"}}
		}, Soon, "The check of the peers has an alarm: 11s off.", "chronyc"},
		{"alarms", func(v *View) {
			v.Alarms = []Alarm{{"fingerprint", "f"}}
		}, Soon, "The check of the peers has an alarm: f.", "same flags"},
		{"alarms", func(v *View) {
			v.Alarms = []Alarm{{"address", "a"}}
		}, Soon, "The check of the peers has an alarm: a.", "-advertise"},

		{"time field", early, Urgent,
			"The clock says 2014-12-31 23:59:59 UTC, and the layout's epoch is 2015-01-01 00:00:00 UTC.", "-epoch"},
		{"time field", at(-time.Second), Urgent, "The time field of the layout has ended.", "LAYOUTS.md"},
		{"time field", at(0), Urgent, "The time field of the layout has ended.", ""},
		{"time field", at(29 * day), Urgent, "The time field of the layout ends in 29 d.", ""},
		{"time field", at(700 * day), Soon, "The time field of the layout ends in 1 y 335 d.", ""},
		{"time field", at(730 * day), 0, "", ""},

		{"certificate", func(v *View) {
			v.Certificate = noon.Add(13 * day)
		}, Soon, "The TLS certificate expires in 13 d.", "systemctl reload"},
		{"certificate", func(v *View) {
			v.Certificate = noon.Add(-time.Hour)
		}, Urgent, "The TLS certificate expired 1 h ago.", "cannot connect"},
		{"certificate", func(v *View) { v.Certificate = noon.Add(14 * day) }, 0, "", ""},
		{"certificate", func(v *View) { v.Certificate = time.Time{} }, 0, "", ""},

		{"connections", grown(ConnectionsRefused, 7), Urgent,
			"7 connections were refused in the last minute: the limit is 1,024.", "-max-connections"},
		{"connections", grown(ConnectionsRefused, 7), Urgent,
			"7 connections were refused in the last minute: the limit is 1,024.",
			"ss -Htn state established 'sport = :11212' |"},
		{"connections", func(v *View) {
			v.Connections = 922
		}, Soon, "922 of 1,024 connections are open.", "-max-connections"},
		{"connections", func(v *View) {
			v.Connections, v.Ports = 922, append([]Port{{"Redis", "10.0.0.8:6379"}, {"memcached", "/run/k.sock"}}, v.Ports...)
		}, Soon, "922 of 1,024 connections are open.", "'sport = :6379 or sport = :11212'"},
		{"connections", func(v *View) { v.Connections = 920 }, 0, "", ""},
		{"connections", func(v *View) { v.Connections, v.ConnectionsLimit = 1e6, 0 }, 0, "", ""},
		{"connections", grown(HTTPRefused, 1234), Soon, "The HTTP port refused 1,234 connections in the last minute.", ""},
		{"connections", grown(AcceptErrors, 3), Soon, "Accepting a connection failed 3 times in the last minute.",
			"open files"},

		{"refusals", grown(NoWorkerID, 2), Soon, "2 requests were refused in the last minute: there was no worker id.", ""},
		{"refusals", grown(LeaseExpired, 3), Soon, "3 requests were refused in the last minute: a lease had expired.",
			"redis-cli"},
		{"refusals", grown(ClockBehind, 4), Urgent,
			"4 requests were refused in the last minute: the clock is behind the last id.", "chronyc"},
		{"refusals", grown(RateExceeded, 5), Urgent, "5 requests were refused in the last minute: the id rate is exceeded.",
			"more lanes"},
		{"refusals", grown(TimeFieldEnd, 6), Urgent, "6 requests were refused in the last minute: the time field has ended.",
			""},

		{"clock", func(v *View) {
			v.ClockDifference = 500 * time.Millisecond
		}, Soon, "The wall clock is 500 ms ahead of the id clock.", "chronyc"},
		{"clock", func(v *View) {
			v.ClockDifference = -3200 * time.Millisecond
		}, Soon, "The wall clock is 3.2 s behind the id clock.", "chronyc"},
		{"clock", func(v *View) { v.ClockDifference = 499 * time.Millisecond }, 0, "", ""},
		{"clock", grown(ClockStepped, 1), Note, "The clock was set, or the machine slept: 1 time in the last 10 minutes.",
			"slew"},

		{"store", grown(StoreFailed, 9), Soon, "9 calls of the store failed in the last minute.", "redis-cli"},
		{"lanes", func(v *View) {
			v.Troubles[StoreFailed], v.Lanes[0].State = 9, "degraded"
		}, Soon, "The lease of worker id 501 is not extended.", ""},
		{"store", grown(StoreLost, 1), Soon, "1 lease was lost in the last 10 minutes.", "lease list"},
		{"store", grown(StoreLost, 2), Soon, "2 leases were lost in the last 10 minutes.", "lease list"},
		{"store", func(v *View) {
			v.Store.ClockOff = -1001 * time.Millisecond
		}, Soon, "The clock of Redis and this one's are 1.0 s apart.", "-max-skew"},
		{"store", func(v *View) { v.Store.ClockOff = time.Second }, 0, "", ""},
		{"store", func(v *View) {
			v.Store.Needed = 4
		}, Urgent, "3 of 4 replicas of Redis are connected that must have a lease before it counts.", "lease replicas"},
		{"store", func(v *View) {
			v.Store.Wait = 42 * time.Second
		}, Note, "The store may have forgotten leases: newcomers get worker ids in 42.0 s.", "Wait"},
		{"store", func(v *View) { v.NotAnnounced = "NOPERM, the user needs the right to run 'set'" }, Soon,
			"The store refuses to announce this daemon: NOPERM, the user needs the right to run 'set'.",
			"redis-cli -u redis://10.0.0.5:6379/1 acl setuser USER '~ids:*' +set +getrange +zadd"},
		{"store", func(v *View) {
			v.NotAnnounced, v.Store.URL = "NOPERM, keys", "rediscluster://a?x=1&ns=n"
		}, Soon, "The store refuses to announce this daemon: NOPERM, keys.", "'~{n}:*'"},
		{"store", func(v *View) {
			v.NotAnnounced, v.Store.URL = "NOPERM, keys", "redis+sentinel://a/m"
		}, Soon, "The store refuses to announce this daemon: NOPERM, keys.", "'~NAME:*'"},
		{"store", func(v *View) { v.NotAnnounced = "WRONGTYPE" }, Soon,
			"The store refuses to announce this daemon: WRONGTYPE.", "-announce off"},
		{"store", grown(AnnounceErrors, 2), Soon, "2 announcements failed in the last minute.", ""},

		{"memory", grown(MemoryClosed, 2), Soon,
			"2 connections were closed in the last 10 minutes for holding most of the memory.", "-max-buffer-memory"},
		{"memory", func(v *View) { v.Buffers = 240 << 20 }, Soon, "Buffers hold 240 MiB of 256 MiB.", "-max-buffer-memory"},
		{"memory", func(v *View) { v.Buffers = 230 << 20 }, 0, "", ""},
		{"memory", func(v *View) { v.BuffersLimit = 0 }, 0, "", ""},
		{"run-ahead", lane(func(l *Lane) {
			l.RunAhead = 901 * time.Millisecond
		}), Soon, "Worker id 501 is 901 ms ahead of the clock; the limit is 1.0 s.", "more lanes"},
		{"run-ahead", lane(func(l *Lane) { l.RunAhead = 900 * time.Millisecond }), 0, "", ""},
		{"run-ahead", lane(func(l *Lane) { l.RunAhead, l.For = 999*time.Millisecond, 10*time.Second }), 0, "", ""},
		{"log", grown(LogDropped, 8), Note, "8 lines of the log were dropped in the last 10 minutes.", ""},
		{"log", grown(LoginErrors, 3), Note, "3 logins failed in the last minute.", "-g 'logins failed'"},
		{"descriptors", func(v *View) { v.Process.Files = 3687 }, Soon, "3,687 of 4,096 descriptors are open.", "limit"},
		{"descriptors", func(v *View) { v.Process.Files = 3686 }, 0, "", ""},
		{"descriptors", func(v *View) { v.Process = Process{} }, 0, "", ""},
		{"record", func(v *View) {
			v.Store = Store{Kind: noStore}
		}, Note, "This daemon keeps no record: -state-dir is none, or could not be used.", "-state-dir"},
	}
}

// TestFindings: each row finds what it should, and nothing else.
func TestFindings(t *testing.T) {
	tested := map[string]bool{}
	for i, r := range rows() {
		v := healthy()
		h := past(&v)
		r.change(&v)
		got, _ := findings(&v, h.all(noon))
		if r.what == "" {
			if len(got) != 0 {
				t.Errorf("row %d, %s: %q", i, r.rule, got[0].What)
			}
			continue
		}
		tested[r.rule] = true
		if len(got) != 1 {
			t.Errorf("row %d, %s: %d findings, want %q", i, r.rule, len(got), r.what)
			continue
		}
		f := got[0]
		if f.rule != r.rule || f.Level != r.level || f.What != r.what ||
			!strings.Contains(f.Means+" "+f.Do+" "+f.Command, r.also) {
			t.Errorf("row %d: %s (%s): %q, %q %q %q\nwant %s (%s): %q, %q", i, f.rule, f.Level, f.What, f.Means, f.Do, f.Command,
				r.rule, r.level, r.what, r.also)
		}
		if f.Means == "" || f.Do == "" || strings.HasSuffix(f.What, "..") {
			t.Errorf("row %d: %q does not say what it means, and what to do", i, f.What)
		}
	}
	for _, r := range rules {
		if !tested[r.name] {
			t.Errorf("no row is about %s", r.name)
		}
	}
}

// TestNothingIsWrong, and it is said.
func TestNothingIsWrong(t *testing.T) {
	v := healthy()
	h := past(&v)
	if got, more := findings(&v, h.all(noon)); len(got) != 0 || more != 0 {
		t.Errorf("%+v", got)
	}
	for _, accept := range []string{"", browser} {
		if !strings.Contains(get(v, h, "/", accept).Body.String(), "Nothing is wrong.") {
			t.Errorf("Accept: %q: it is not said", accept)
		}
	}
}

// TestTheWorstIsFirst, and what is left out is counted.
func TestTheWorstIsFirst(t *testing.T) {
	v := healthy()
	h := past(&v)
	v.Troubles[LogDropped]++
	v.Troubles[HTTPRefused]++
	v.NotReady = "lease expired"
	for i := range maxFindings {
		v.Alarms = append(v.Alarms, Alarm{"worker_id", number(uint64(i))})
	}
	got, more := findings(&v, h.all(noon))
	if len(got) != maxFindings || more != 3 || !strings.HasPrefix(got[0].What, "No ids") || got[0].Level != Urgent {
		t.Errorf("%d findings and %d more, the first %q", len(got), more, got[0].What)
	}
	v.Alarms = nil
	v.Troubles[ClockBehind]++ // more urgent than what an earlier rule finds
	got, _ = findings(&v, h.all(noon))
	if !slices.IsSortedFunc(got, func(a, b Finding) int { return int(a.Level - b.Level) }) || len(got) != 4 {
		t.Errorf("%+v", got)
	}
	for _, accept := range []string{"", browser} {
		body := get(v, h, "/", accept).Body.String()
		if strings.Contains(body, "Nothing is wrong") ||
			strings.Index(body, "No ids are issued") > strings.Index(body, "The HTTP port refused") {
			t.Errorf("Accept: %q: the order is another one", accept)
		}
	}
}

// TestManyNamesHideNothing: when the store of 10,000 sequences is away, what else is wrong is shown too.
func TestManyNamesHideNothing(t *testing.T) {
	v := healthy()
	h := past(&v)
	v.Names = nil
	for i := range 5000 {
		name := "n" + number(uint64(i))
		v.Names = append(v.Names, Name{Name: name, Kind: "sequence", Refusal: name + ": no block", Sequence: new(Sequence)},
			Name{Name: name, Kind: "sequence", Sequence: &Sequence{DaysLeft: 9}})
	}
	v.Alarms = []Alarm{{"worker_id", "10.0.0.9 has 501"}}
	v.Troubles[HTTPRefused]++
	got, more := findings(&v, h.all(noon))
	has := func(what string) bool {
		return slices.ContainsFunc(got, func(f Finding) bool { return strings.HasPrefix(f.What, what) })
	}
	for _, what := range []string{"n0 issues nothing", "Another daemon has a worker id", "4,997 more names issue nothing",
		"The sequence n2 ends", "4,997 more sequences end within 30 days", "The HTTP port refused"} {
		if !has(what) {
			t.Errorf("nothing says %q", what)
		}
	}
	if more != 0 {
		t.Errorf("%d findings are left out", more)
	}
}

// TestOneReasonIsOneFinding: lanes that wait for the same are one, others are not.
func TestOneReasonIsOneFinding(t *testing.T) {
	v := healthy()
	v.Lanes = nil
	for i, reason := range []string{"timeout", "refused", "timeout"} {
		v.Lanes = append(v.Lanes,
			Lane{Worker: uint64(i), HasWorker: true, State: "degraded", Reason: reason, Left: time.Minute})
	}
	v.Lanes = append(v.Lanes, Lane{Worker: 8, HasWorker: true, State: "serving", Left: time.Second},
		Lane{Worker: 9, HasWorker: true, State: "serving", Left: time.Minute})
	var got []string
	found, _ := findings(&v, nil)
	for _, f := range found {
		got = append(got, f.What)
	}
	want := []string{"The lease of worker ids 0, 2 is not extended: timeout.",
		"The lease of worker id 1 is not extended: refused.", "The window of worker id 8 ends in 1.0 s."}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWhatIsOverIsNotFound: a trouble of the last minute is gone after it, one of the last ten minutes
// after those; and before the first sample nothing is known to have happened.
func TestWhatIsOverIsNotFound(t *testing.T) {
	for _, c := range []struct {
		of    Trouble
		after time.Duration
	}{{HTTPRefused, time.Minute}, {LogDropped, Span}} {
		v := healthy()
		h := past(&v)
		v.Troubles[c.of] = 5
		for at := time.Duration(0); at < c.after+2*Every; at += Every {
			v.Now, v.At = noon.Add(at), noon.Add(at)
			found, _ := findings(&v, h.all(v.Now))
			if (len(found) == 1) != (at < c.after) {
				t.Fatalf("after %v: %d findings", at, len(found))
			}
			h.add(v.Sample)
		}
	}
	v := healthy()
	v.Troubles[HTTPRefused] = 5
	if found, _ := findings(&v, nil); len(found) != 0 {
		t.Errorf("without a history: %+v", found)
	}
}

// TestNoStoreIsToBlameForTheClock: a lane that waits because the clock is before the epoch does not send people to
// the disk.
func TestNoStoreIsToBlameForTheClock(t *testing.T) {
	v := healthy()
	v.Now = time.UnixMilli(v.Layout.Epoch).Add(-time.Second)
	v.Store = Store{Kind: stateDirectory, Where: "/var/lib/k"}
	v.Lanes = []Lane{{State: "acquiring", For: time.Minute, Reason: "the clock is before the epoch"}}
	found, _ := findings(&v, nil)
	clocks := 0
	for _, f := range found {
		if strings.Contains(f.Do+f.Command, "disk") || strings.Contains(f.Command, "df") {
			t.Errorf("%+v", f)
		}
		if f.Command == chrony {
			clocks++
		}
	}
	if clocks != 2 {
		t.Errorf("%+v", found)
	}
}

// TestNoWindowsAreLeftToPromise: what failed calls of the store mean depends on whether ids are issued.
func TestNoWindowsAreLeftToPromise(t *testing.T) {
	for notReady, want := range map[string]string{
		"":                   "Windows are still long enough. If it goes on, ids stop.",
		"there is no worker": "Ids may be issued again when it answers.",
	} {
		v := healthy()
		h := past(&v)
		grown(StoreFailed, 9)(&v)
		v.NotReady = notReady
		got, _ := findings(&v, h.all(noon))
		if f := got[len(got)-1]; f.rule != "store" || f.Means != want {
			t.Errorf("%q: %s: %q", notReady, f.rule, f.Means)
		}
	}
}
