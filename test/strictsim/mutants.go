package strictsim

// A Mutant is a world without one of the rules. The product has no hooks for it: each is a fault of what
// surrounds it here, so that the same would happen to clients as if the rule were missing.
type Mutant int

// The mutants. Those about tokens alone are package seqsim's, where no fence protects the record too.
const (
	None                Mutant = iota
	ReserveAfterUse            // a block is issued from before it is recorded
	ResumeBlock                // a later term goes on with the block of an earlier one
	WriteNumber                // what is left is given back by writing the next value, whoever has written since
	ReturnAfterTerm            // the same, but only if that value is where the block ended: no fence, any token
	NoFence                    // a daemon reserves although another one leads
	NoLeaseCheck               // a leader answers whenever it has values
	TurnsClock                 // a request's moment is when the loop's turn began
	TimedFromAnswer            // a leader counts from when its renewal was answered
	FullTTL                    // and as long as the others do
	NoSeal                     // the values of a term that ended can still be taken
	UnsealAfterDemote          // a leader goes on if nobody answered that the group was handed over
	LateAppended               // a block of an earlier term is added to a later one
	LateForward                // the answer to a forward that was given up is taken for that to a newer one
	Surplus                    // a forward asks for more, and keeps it for newer requests
	AnswerBeforeReserve        // a new leader goes on from the next value that it has read
	UntilOfAll                 // a renewal extends groups that it did not compare
	NoNodeCompare              // a claim does not compare the node key
	IgnoreStep                 // a later term takes another step than the record's

	// These are of worlds of timestamps.
	StartAtNow     // a term begins at the position of now, wherever the record is
	NoClamp        // a leader's clock counts however far ahead it is
	FollowersClock // another daemon's clock counts, and the median does not
	Ratchet        // each grant adds its 3 s to the record
	numMutants
)

func (m Mutant) String() string {
	return [...]string{
		"None", "ReserveAfterUse", "ResumeBlock", "WriteNumber", "ReturnAfterTerm", "NoFence", "NoLeaseCheck", "TurnsClock",
		"TimedFromAnswer", "FullTTL",
		"NoSeal", "UnsealAfterDemote", "LateAppended", "LateForward", "Surplus", "AnswerBeforeReserve", "UntilOfAll",
		"NoNodeCompare", "IgnoreStep", "StartAtNow", "NoClamp", "FollowersClock", "Ratchet",
	}[m]
}

// Mutants is all of them but None.
func Mutants() []Mutant {
	var all []Mutant
	for m := None + 1; m < numMutants; m++ {
		all = append(all, m)
	}
	return all
}
