package explore

// Faults that mutants of files need: of some kinds only.
var (
	tampered = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Delete, Lose, Copied, Overwrite}}
	clocks   = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Jump}}
	single   = Bound{Faults: 1}
	killed   = Bound{Faults: 2, Kinds: []Kind{Kill, NoAnswer, Backup}, Last: []Kind{Kill}}
	walks    = Bound{}                                                 // is for what random walks find
	losses   = Bound{Faults: 3, Kinds: []Kind{Breaks, Promote, Pause}} // of writes in Redis
)

// early is faults of some kinds within the first seconds of the world of strict order.
func early(faults int, kinds ...Kind) Bound {
	return Bound{Faults: faults, Begin: strictFaults, Kinds: kinds}
}

var mutants = []mutant{
	{"files", "the generator issues outside its window", single, "14:19.1.0.0.0.1"},
	{"files", "the lease is released while the generator still issues", single, "10:9.1.0.1.0.0"},
	{"files", "the disk is not asked to keep what is written", single, "19:17.1.0.0.0.0"},
	{"files", "the state file is gone after each run", single, "9:16.1.0.0.0.0"},
	{"files", "what is reported at the end lies before the last id", single, "9:18.1.0.1.11.0"},
	{"files", "the nonce is not renewed", tampered, "19:9.1.0.0.12.0 20:21.1.0.0.0.1"},
	{"files", "the boot id is not compared", clocks, "19:17.1.0.0.0.0 20:16.1.0.0.0.0"},
	{"files", "the word is trusted after another run", tampered, "19:9.1.0.0.12.0 20:21.1.0.0.0.1"},
	{"files", "the word is trusted though the lock is a new file", single, "16:19.1.0.0.0.0"},
	{"files", "the word is trusted though it is a copy", single, "18:21.1.0.0.0.0"},
	{"files", "a state file is taken for one's own though it is a new one", tampered,
		"13:19.1.0.0.0.3 14:8.1.0.1.1.0 18:12.0.0.0.0.2"},
	{"files", "the word is trusted though its page was written to while it was in use", single, "19:22.1.0.0.0.0"},
	{"files", "the generator keeps its word elsewhere, and says that it does not", single, ""},

	{"leases, a freed worker id", "a draining lane does not look after the floor",
		Bound{Faults: 2, Begin: 4500, Kinds: []Kind{Kill}},
		"21:9.1.0.2.0.0 24:9.1.0.0.0.0 48:12.0.0.1.0.0"},
	{"leases, a backup at hand", "a window starts at the mark + 1", single, "25:12.0.0.0.0.0 84:15.1.0.0.0.1"},
	{"leases, a backup at hand", "a write goes over whichever connection there is", single,
		"1:8.1.0.0.0.1 37:12.0.0.1.0.0"},
	{"leases, a backup at hand", "an epoch that only the watch saw is taken for known", single,
		"1:8.1.0.0.0.1 37:12.0.0.1.0.0"},
	{"leases, a backup at hand", "newcomers do not watch", single, "91:12.0.0.0.0.0 92:10.1.0.0.0.0"},
	{"leases, a backup at hand", "returners do not watch", single, "1:8.1.0.0.0.1 37:12.0.0.1.0.0"},
	{"leases, a backup at hand", "the watch goes over two connections", single, "1:8.1.0.0.0.1 37:12.0.0.1.0.0"},
	{"leases, a backup at hand", "the floor does not cover a lease", single, "41:12.0.0.0.0.0 47:8.1.0.1.0.1"},
	{"leases", "a holder that was rolled back goes on", killed, "1:11.1.0.0.0.0 83:12.0.0.0.0.0 86:9.1.0.1.0.0"},
	{"leases", "a successor starts at the present if the session is gone", single, "3:14.1.0.0.0.0"},
	{"leases", "an older request id is taken for a clone's", single, "1:11.1.0.0.0.0 82:12.0.0.0.0.0"},
	{"leases", "presence is the fence", killed, "1:11.1.0.0.0.0 83:12.0.0.0.0.0 86:9.1.0.1.0.0"},
	{"leases", "the record is not compared", single, "1:8.1.0.0.0.1"},

	{"strict", "NoLeaseCheck", early(1), "16:8.1.0.0.0.0"},
	{"strict", "TurnsClock", Bound{Faults: 1, Preemptions: 1, Begin: strictFaults, Kinds: []Kind{Pause}},
		"16:7.1.0.0.0.0 51:3.0.1.1.0.0"},
	{"strict", "Surplus", early(1), ""},
	{"strict", "IgnoreStep", early(1), "25:8.1.0.0.0.0"},
	{"strict", "ReserveAfterUse", early(2, Demote, Held, Pause), "11:26.1.0.0.0.0 17:24.1.0.2.0.1"},
	{"strict", "ReturnAfterTerm", early(2, Demote, Pause), "11:26.1.0.0.0.0 20:7.1.0.2.0.0"},
	{"strict", "NoFence", early(2, Demote, Held, Pause), "11:26.1.0.0.0.0 17:24.1.0.2.0.1"},
	{"strict", "UnsealAfterDemote", early(2, Demote, Delayed), "22:26.1.0.0.0.0 23:23.1.0.0.1.1"},
	{"strict", "AnswerBeforeReserve", early(2, Demote), "16:26.1.0.0.0.0 25:26.1.0.2.0.0"},
	{"strict", "ResumeBlock", Bound{Faults: 3, Kinds: []Kind{Demote, Delayed}},
		"101:26.1.0.0.0.0 110:26.1.0.2.0.0 115:23.1.0.1.0.0"},
	{"strict", "LateForward", Bound{Faults: 2, Kinds: []Kind{LateAnswer}}, "99:3.1.0.2.0.1 109:3.1.0.2.0.0"},
	{"strict, long blocks", "TimedFromAnswer", early(2, Cut, LateAnswer), "7:3.1.0.0.0.0 16:28.1.0.0.0.0"},

	{"strict", "WriteNumber", walks, "1:7.1.0.0.0.2 43:7.1.0.1.0.0 75:7.1.0.2.0.2"},
	{"strict", "LateAppended", walks, "16:5.1.0.0.1.0 28:5.1.0.1.0.0 37:3.1.0.1.0.1 67:26.1.0.0.0.0 77:26.1.0.1.0.0"},
	{"strict, long blocks", "NoSeal", walks, "0:23.1.0.1.0.1 5:2.0.1.2.0.0 9:9.1.0.2.0.0 10:7.1.0.2.0.1 " +
		"18:3.1.0.0.0.2 20:7.1.0.1.0.2 23:25.0.1.0.0.0 24:26.1.0.0.0.0 32:7.1.0.0.0.2 35:1.0.1.2.0.0 39:1.0.1.2.0.0"},
	{"strict, two groups", "FullTTL", walks, "61:8.1.0.0.0.0"},
	{"strict, two groups", "NoNodeCompare", walks, "16:8.1.0.0.1.0 56:4.1.0.2.0.0 61:7.1.0.0.0.0"},
	{"strict, two groups", "UntilOfAll", walks, "0:24.1.0.0.0.1 8:27.1.0.1.0.0 35:28.1.0.2.0.1 58:27.1.0.1.0.0"},

	{"timestamps", "StartAtNow", early(1), "16:16.1.0.0.0.1"},
	{"timestamps", "NoClamp", early(1), "22:16.1.0.0.0.1"},
	{"timestamps", "FollowersClock", early(1), "23:16.1.0.1.0.1"},
	{"timestamps", "Ratchet", early(1), ""},

	{"redis", "release deletes the record", single, "1:27.1.0.0.0.0"},
	{"redis", "successor starts at now", single, "1:27.1.0.0.0.0"},
	{"redis", "hi not capped", single, ""},
	{"redis", "blind renewal", single, "1:7.1.0.0.0.1"},
	{"redis", "no floor", losses, "2:7.1.0.1.0.0 7:6.1.0.0.0.0 27:29.1.0.1.0.0 29:12.0.0.0.0.0"},
	{"redis", "reclaim without prev > now + eps", Bound{Faults: 2}, "1:7.1.0.0.0.1 14:14.1.0.0.0.0"},
	{"redis", "incarnation without replid", losses, "2:6.1.0.0.0.0 25:29.1.0.1.0.0 26:12.0.0.0.0.0 28:29.1.0.0.0.0"},
	{"redis", "release not checked", Bound{Faults: 2}, "1:7.1.0.0.0.1 14:27.1.0.0.0.0"},
	{"redis", "eps = 0", losses, "2:6.1.0.0.0.0 13:29.1.0.1.0.0 15:12.0.0.0.0.0 17:7.1.0.0.0.1"},
	{"redis", "operator's release grants at once", Bound{Faults: 2}, "2:15.1.0.0.0.0 4:14.1.0.0.0.0"},
	{"redis, with a replica", heedless, losses,
		"2:6.1.0.0.0.0 7:12.0.0.1.0.0 8:29.1.0.1.0.0 10:12.0.0.0.0.0 11:29.1.0.0.0.1"},

	{"lines, a fail-over", "NoJump", Bound{Faults: 2}, "19:6.1.0.0.0.0 30:9.1.0.0.0.0"},
	{"lines, a fail-over", "JumpWithoutEps", Bound{Faults: 2}, "19:6.1.0.0.0.0 29:9.1.0.0.0.0"},
	{"lines, a fail-over", "NoCeiling", Bound{Faults: 2}, "28:9.1.0.0.0.0 30:9.1.0.1.0.0"},
	{"lines, two masters", "IgnoreWait", Bound{Faults: 3, Preemptions: 1, Kinds: []Kind{Kill, Breaks}},
		"7:6.1.0.0.0.0 17:9.1.0.0.0.1 30:1.0.1.0.0.0"},
	{"lines, two masters", "TakeBackAnyway", Bound{Faults: 2, Preemptions: 1, Kinds: []Kind{Kill, Breaks, Raise}},
		"12:9.1.0.0.0.0 13:12.0.0.0.0.0 14:9.1.0.1.0.0 29:12.0.0.1.0.0 30:2.0.1.0.0.0"},
	{"lines, a fail-over", "BeforeSafe", Bound{Faults: 2}, "0:6.1.0.0.0.0 29:9.1.0.0.0.0"},
	{"lines, a fail-over", "RaiseWithoutLine", Bound{Faults: 3, Kinds: []Kind{Kill, Breaks, Raise}},
		"27:13.1.0.0.0.0 29:6.1.0.0.0.0 31:9.1.0.0.0.0"},
	{"lines, a fail-over", "RaiseNotSafe", Bound{Faults: 3, Kinds: []Kind{Kill, Breaks, Raise}},
		"29:13.1.0.0.0.1 30:9.1.0.0.0.0 31:12.0.0.0.0.0 32:13.1.0.1.0.0"},
}
