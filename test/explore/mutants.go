package explore

// The mutants of the world of files, besides package sim's Unfenced.
const (
	unsealed    = "the lease is released while the generator still issues"
	unsynced    = "the disk is not asked to keep what is written"
	forgotten   = "the state file is gone after each run"
	earlyReport = "what is reported at the end lies before the last id"
	unrenewed   = "the nonce is not renewed"
	anyBoot     = "the boot id is not compared"
	anyRun      = "the word is trusted after another run"
	anyLock     = "the word is trusted though the lock is a new file"
	anyPage     = "the word is trusted though it is a copy"
	anyFile     = "a state file is taken for one's own though it is a new one"
	anyWrite    = "the word is trusted though its page was written to while it was in use"
	wordless    = "the generator keeps its word elsewhere, and says that it does not"
)

// The mutants of the worlds of strict order. The product has no hooks for them: each is a fault of what surrounds it
// here, so that the same would happen to clients as if the rule were missing. None is about tokens alone: a fence
// protects the record too.
const (
	reserveAfterUse     = "ReserveAfterUse"     // a block is issued from before it is recorded
	resumeBlock         = "ResumeBlock"         // a later term goes on with the block of an earlier one
	writeNumber         = "WriteNumber"         // the next value is written back, whoever has written since
	returnAfterTerm     = "ReturnAfterTerm"     // the next value is written, whoever has written since
	noFence             = "NoFence"             // a daemon reserves although another one leads
	noLeaseCheck        = "NoLeaseCheck"        // a leader answers whenever it has values
	turnsClock          = "TurnsClock"          // a request's moment is when the loop's turn began
	timedFromAnswer     = "TimedFromAnswer"     // a leader counts from when its renewal was answered
	fullTTL             = "FullTTL"             // and as long as the others do
	noSeal              = "NoSeal"              // the values of a term that ended can still be taken
	unsealAfterDemote   = "UnsealAfterDemote"   // a leader goes on if no answer said that it has handed over
	lateAppended        = "LateAppended"        // a block of an earlier term is added to a later one
	lateForward         = "LateForward"         // the answer to a forward that was given up counts for another
	surplus             = "Surplus"             // a forward asks for more, and keeps it for newer requests
	answerBeforeReserve = "AnswerBeforeReserve" // a new leader goes on from the next value that it has read
	untilOfAll          = "UntilOfAll"          // a renewal extends groups that it did not compare
	noNodeCompare       = "NoNodeCompare"       // a claim does not compare the node key
	ignoreStep          = "IgnoreStep"          // a later term takes another step than the record's

	// These are of timestamps.
	startAtNow     = "StartAtNow"     // a term begins at the position of now, wherever the record is
	noClamp        = "NoClamp"        // a leader's clock counts however far ahead it is
	followersClock = "FollowersClock" // another daemon's clock counts, and the median does not
	ratchet        = "Ratchet"        // each grant adds its 3 s to the record

	// These are of lines, by the rules of package line.
	noJump           = "NoJump"           // R2: a server that was promoted goes on where its record is
	jumpWithoutEps   = "JumpWithoutEps"   // R2: the clocks of two servers are taken for one
	noCeiling        = "NoCeiling"        // R1
	ignoreWait       = "IgnoreWait"       // R3: a grant counts though the replica lacks it
	beforeSafe       = "BeforeSafe"       // R4: grants before the definition is where a loss cannot take it
	raiseWithoutLine = "RaiseWithoutLine" // R5: what was raised is granted above the line
	raiseNotSafe     = "RaiseNotSafe"     // R5: a raise counts although a loss can take it
	takeBackAnyway   = "TakeBackAnyway"   // what was not confirmed is taken back whoever has written since
)
