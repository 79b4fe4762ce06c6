package explore

import "github.com/katsubushi/katsubushi/v3/test/sim"

// The mutants of the world of files, besides package sim's Unfenced and Unsealed.
const (
	unsynced    sim.Mutant = "the disk is not asked to keep what is written"
	forgotten   sim.Mutant = "the state file is gone after each run"
	earlyReport sim.Mutant = "what is reported at the end lies before the last id"
	unrenewed   sim.Mutant = "the nonce is not renewed"
	anyBoot     sim.Mutant = "the boot id is not compared"
	anyRun      sim.Mutant = "the word is trusted after another run"
	anyLock     sim.Mutant = "the word is trusted though the lock is a new file"
	anyPage     sim.Mutant = "the word is trusted though it is a copy"
	anyFile     sim.Mutant = "a state file is taken for one's own though it is a new one"
	anyWrite    sim.Mutant = "the word is trusted though its page was written to while it was in use"
	wordless    sim.Mutant = "the generator keeps its word elsewhere, and says that it does not"
)

// The mutants of the worlds of strict order. The product has no hooks for them: each is a fault of what surrounds it
// here, so that the same would happen to clients as if the rule were missing. Those about tokens alone are package
// seqsim's, where no fence protects the record too.
const (
	reserveAfterUse     sim.Mutant = "ReserveAfterUse"     // a block is issued from before it is recorded
	resumeBlock         sim.Mutant = "ResumeBlock"         // a later term goes on with the block of an earlier one
	writeNumber         sim.Mutant = "WriteNumber"         // the next value is written back, whoever has written since
	returnAfterTerm     sim.Mutant = "ReturnAfterTerm"     // the next value is written, whoever has written since
	noFence             sim.Mutant = "NoFence"             // a daemon reserves although another one leads
	noLeaseCheck        sim.Mutant = "NoLeaseCheck"        // a leader answers whenever it has values
	turnsClock          sim.Mutant = "TurnsClock"          // a request's moment is when the loop's turn began
	timedFromAnswer     sim.Mutant = "TimedFromAnswer"     // a leader counts from when its renewal was answered
	fullTTL             sim.Mutant = "FullTTL"             // and as long as the others do
	noSeal              sim.Mutant = "NoSeal"              // the values of a term that ended can still be taken
	unsealAfterDemote   sim.Mutant = "UnsealAfterDemote"   // a leader goes on if no answer said that it has handed over
	lateAppended        sim.Mutant = "LateAppended"        // a block of an earlier term is added to a later one
	lateForward         sim.Mutant = "LateForward"         // the answer to a forward that was given up counts for another
	surplus             sim.Mutant = "Surplus"             // a forward asks for more, and keeps it for newer requests
	answerBeforeReserve sim.Mutant = "AnswerBeforeReserve" // a new leader goes on from the next value that it has read
	untilOfAll          sim.Mutant = "UntilOfAll"          // a renewal extends groups that it did not compare
	noNodeCompare       sim.Mutant = "NoNodeCompare"       // a claim does not compare the node key
	ignoreStep          sim.Mutant = "IgnoreStep"          // a later term takes another step than the record's

	// These are of timestamps.
	startAtNow     sim.Mutant = "StartAtNow"     // a term begins at the position of now, wherever the record is
	noClamp        sim.Mutant = "NoClamp"        // a leader's clock counts however far ahead it is
	followersClock sim.Mutant = "FollowersClock" // another daemon's clock counts, and the median does not
	ratchet        sim.Mutant = "Ratchet"        // each grant adds its 3 s to the record

	// These are of lines, by the rules of package line.
	noJump           sim.Mutant = "NoJump"           // R2: a server that was promoted goes on where its record is
	jumpWithoutEps   sim.Mutant = "JumpWithoutEps"   // R2: the clocks of two servers are taken for one
	noCeiling        sim.Mutant = "NoCeiling"        // R1
	ignoreWait       sim.Mutant = "IgnoreWait"       // R3: a grant counts though the replica lacks it
	beforeSafe       sim.Mutant = "BeforeSafe"       // R4: grants before the definition is where a loss cannot take it
	raiseWithoutLine sim.Mutant = "RaiseWithoutLine" // R5: what was raised is granted above the line
	raiseNotSafe     sim.Mutant = "RaiseNotSafe"     // R5: a raise counts although a loss can take it
	takeBackAnyway   sim.Mutant = "TakeBackAnyway"   // what was not confirmed is taken back whoever has written since
)
