package explore

// Faults that mutants of files need: of some kinds only.
var (
	tampered = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Delete, Lose, Copied, Overwrite}}
	clocks   = Bound{Faults: 2, Kinds: []Kind{Kill, Power, StopSend, Jump}}
	single   = Bound{Faults: 1}
)

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
		"12:19.1.0.0.0.3 14:12.0.0.0.0.2 16:8.1.0.0.0.0"},
	{"files", "the word is trusted though its page was written to while it was in use", single, "19:22.1.0.0.0.0"},
	{"files", "the generator keeps its word elsewhere, and says that it does not", single, ""},
}
