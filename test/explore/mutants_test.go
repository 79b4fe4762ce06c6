package explore

// Faults that mutants of files need: of some kinds only.
var (
	tampered = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Delete, Lose, Copied, Overwrite}}
	clocks   = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Jump}}
	single   = Bound{Faults: 1}
	walks    = Bound{} // is for what random walks find
)

// early is faults of some kinds within the first seconds of the world of strict order.
func early(faults int, kinds ...Kind) Bound {
	return Bound{Faults: faults, Begin: strictFaults, Kinds: kinds}
}

var mutants = []mutant{
	{"files", "the generator issues outside its window", single, "14:16.1.0.0.0.1"},
	{"files", "the lease is released while the generator still issues", single, "10:9.1.0.1.0.0"},
	{"files", "the disk is not asked to keep what is written", single, "19:14.1.0.0.0.0"},
	{"files", "the state file is gone after each run", single, "9:13.1.0.0.0.0"},
	{"files", "what is reported at the end lies before the last id", single, "9:15.1.0.1.11.0"},
	{"files", "the nonce is not renewed", tampered, "19:9.1.0.0.12.0 20:18.1.0.0.0.1"},
	{"files", "the boot id is not compared", clocks, "19:14.1.0.0.0.0 20:13.1.0.0.0.0"},
	{"files", "the word is trusted after another run", tampered, "19:9.1.0.0.12.0 20:18.1.0.0.0.1"},
	{"files", "the word is trusted though the lock is a new file", single, "16:16.1.0.0.0.0"},
	{"files", "the word is trusted though it is a copy", single, "18:18.1.0.0.0.0"},
	{"files", "a state file is taken for one's own though it is a new one", tampered,
		"13:16.1.0.0.0.3 14:8.1.0.1.1.0 18:11.0.0.0.0.2"},
	{"files", "the word is trusted though its page was written to while it was in use", single, "19:19.1.0.0.0.0"},
	{"files", "the generator keeps its word elsewhere, and says that it does not", single, ""},

	{"strict", "NoLeaseCheck", early(1), "16:8.1.0.0.0.0"},
	{"strict", "TurnsClock", Bound{Faults: 1, Preemptions: 1, Begin: strictFaults, Kinds: []Kind{Pause}},
		"16:7.1.0.0.0.0 51:3.0.1.1.0.0"},
	{"strict", "Surplus", early(1), ""},
	{"strict", "IgnoreStep", early(1), "25:8.1.0.0.0.0"},
	{"strict", "ReserveAfterUse", early(2, Demote, Held, Pause), "11:23.1.0.0.0.0 17:21.1.0.2.0.1"},
	{"strict", "ReturnAfterTerm", early(2, Demote, Pause), "11:23.1.0.0.0.0 20:7.1.0.2.0.0"},
	{"strict", "NoFence", early(2, Demote, Held, Pause), "11:23.1.0.0.0.0 17:21.1.0.2.0.1"},
	{"strict", "UnsealAfterDemote", early(2, Demote, Delayed), "22:23.1.0.0.0.0 23:20.1.0.0.1.1"},
	{"strict", "AnswerBeforeReserve", early(2, Demote), "16:23.1.0.0.0.0 25:23.1.0.2.0.0"},
	{"strict", "ResumeBlock", Bound{Faults: 3, Kinds: []Kind{Demote, Delayed}},
		"101:23.1.0.0.0.0 110:23.1.0.2.0.0 115:20.1.0.1.0.0"},
	{"strict", "LateForward", Bound{Faults: 2, Kinds: []Kind{LateAnswer}}, "99:3.1.0.2.0.1 109:3.1.0.2.0.0"},
	{"strict, long blocks", "TimedFromAnswer", early(2, Cut, LateAnswer), "7:3.1.0.0.0.0 16:25.1.0.0.0.0"},

	{"strict", "WriteNumber", walks, "1:7.1.0.0.0.2 43:7.1.0.1.0.0 75:7.1.0.2.0.2"},
	{"strict", "LateAppended", walks, "16:5.1.0.0.1.0 28:5.1.0.1.0.0 37:3.1.0.1.0.1 67:23.1.0.0.0.0 77:23.1.0.1.0.0"},
	{"strict, long blocks", "NoSeal", walks, "0:20.1.0.1.0.1 5:2.0.1.2.0.0 9:9.1.0.2.0.0 10:7.1.0.2.0.1 " +
		"18:3.1.0.0.0.2 20:7.1.0.1.0.2 23:22.0.1.0.0.0 24:23.1.0.0.0.0 32:7.1.0.0.0.2 35:1.0.1.2.0.0 39:1.0.1.2.0.0"},
	{"strict, two groups", "FullTTL", walks, "61:8.1.0.0.0.0"},
	{"strict, two groups", "NoNodeCompare", walks, "16:8.1.0.0.1.0 56:4.1.0.2.0.0 61:7.1.0.0.0.0"},
	{"strict, two groups", "UntilOfAll", walks, "0:21.1.0.0.0.1 8:24.1.0.1.0.0 35:25.1.0.2.0.1 58:24.1.0.1.0.0"},

	{"timestamps", "StartAtNow", early(1), "16:13.1.0.0.0.1"},
	{"timestamps", "NoClamp", early(1), "22:13.1.0.0.0.1"},
	{"timestamps", "FollowersClock", early(1), "23:13.1.0.1.0.1"},
	{"timestamps", "Ratchet", early(1), ""},

	{"lines, a fail-over", "NoJump", Bound{Faults: 2}, "19:6.1.0.0.0.0 30:9.1.0.0.0.0"},
	{"lines, a fail-over", "JumpWithoutEps", Bound{Faults: 2}, "19:6.1.0.0.0.0 29:9.1.0.0.0.0"},
	{"lines, a fail-over", "NoCeiling", Bound{Faults: 2}, "28:9.1.0.0.0.0 30:9.1.0.1.0.0"},
	{"lines, two masters", "IgnoreWait", Bound{Faults: 3, Preemptions: 1, Kinds: []Kind{Kill, Breaks}},
		"7:6.1.0.0.0.0 17:9.1.0.0.0.1 30:1.0.1.0.0.0"},
	{"lines, two masters", "TakeBackAnyway", Bound{Faults: 2, Preemptions: 1, Kinds: []Kind{Kill, Breaks, Raise}},
		"12:9.1.0.0.0.0 13:11.0.0.0.0.0 14:9.1.0.1.0.0 29:11.0.0.1.0.0 30:2.0.1.0.0.0"},
	{"lines, a fail-over", "BeforeSafe", Bound{Faults: 2}, "0:6.1.0.0.0.0 29:9.1.0.0.0.0"},
	{"lines, a fail-over", "RaiseWithoutLine", Bound{Faults: 3, Kinds: []Kind{Kill, Breaks, Raise}},
		"27:12.1.0.0.0.0 29:6.1.0.0.0.0 31:9.1.0.0.0.0"},
	{"lines, a fail-over", "RaiseNotSafe", Bound{Faults: 3, Kinds: []Kind{Kill, Breaks, Raise}},
		"29:12.1.0.0.0.1 30:9.1.0.0.0.0 31:11.0.0.0.0.0 32:12.1.0.1.0.0"},
}
