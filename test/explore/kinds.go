package explore

// The kinds of choice that worlds have in common, and those of single ones.
const (
	Put        Kind = 1 + iota // off: a daemon's call comes after the next event
	LateSend                   // a request is sent after the next event
	LateAnswer                 // an answer comes after the next event
	NoRequest                  // a request is lost
	NoAnswer                   // an answer is lost
	Breaks                     // all connections break before a request
	Pause                      // of a daemon, before its call
	StopSend                   // a daemon is stopped when it is about to send a request
	Kill                       // and start again
	Expire                     // all sessions
	Backup                     // of the store, and Restore of it later
	Restore
	Raise     // the floor, by an operator
	Wipe      // the pool, and make it again
	Free      // a worker id, by an operator
	Jump      // of a daemon's clock, within the maximum skew; of a host's clock
	Power     // is cut
	Fails     // a request, with an error
	Delete    // files
	Lose      // the memory that outlives processes
	Copied    // that memory is replaced by a copy
	Overwrite // that memory, while it is in use
	Delayed   // a request: it is carried out when nobody waits for it any more
	Held      // a request of a client, after its moment was read
	Between   // a request of a client is held after until was read
	Demote    // the leader
	Stop      // a daemon, cleanly, and start it again
	Cut       // a daemon off from the store
	Promote   // the replica
)
