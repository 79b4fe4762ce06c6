// Package static keeps worker ids that were given by hand: for each a file that remembers up to
// when ids may have been issued, so that a daemon never issues below that again, whatever became of
// the clock between its runs.
//
// The guarantee: on a local disk that keeps what it has synced and is neither set back nor copied,
// the windows of one worker id never overlap, through crashes, kills, power cuts and any clock.
// What is not promised: anything about the same worker id given to another host, about a state
// directory that was restored from a backup, or, without a directory (Ephemeral), about a run that
// starts before the wall clock has passed the last id of the one before.
//
// How it is used, beside a workerid.Keeper:
//
//	store, err := static.Open(static.Config{
//		Dir:         "/var/lib/katsubushi",
//		Workers:     []uint64{1, 2},             // one file each
//		Fingerprint: layout.Fingerprint(),
//		Tick:        time.Millisecond,           // the layout's
//		RunAhead:    time.Second,
//		Now:         clock.Now,                  // the id clock, the Keeper's
//		Claim:       true,
//		Log:         log,
//		Memory:      memory,                     // SharedMemory(""), or nil
//		Issued:      layout.Issued,
//	})
//	if err != nil { ... }                        // wrong settings or state: print it and exit
//	defer store.Close()                          // after Keeper.Run has returned
//
// with Heartbeat as the Keeper's and, for lane i, the Request{Min: Workers[i], Max: Workers[i]}.
// Generators are made with the word that Store.Word gives. Without a directory it is
// NewEphemeral(EphemeralConfig{...}) instead. Inspect, Adopt and Reset are what an operator may do
// to the files.
//
// # The file
//
// DIR/worker-7.state is two copies of one record, each 4096 bytes of text: see record.go. A new
// mark is written to the first copy, synced, then to the second, synced, and only then are ids
// issued up to it; so at every moment at least one copy is whole and holds a mark at or above every
// id. At each start the file is written anew beside the old one and renamed over it, since an
// earlier write error may be hidden by the page cache, or over itself where there is no room.
// DIR/worker-7.lock is held with flock by the process that uses the file.
//
// # The word
//
// HighWater are far ahead, so that a disk may stand still for as long. A restart need not wait for
// them: a generator's word outlives the process in a Memory, and lastIssued says when it is
// believed. docs/LEASES.md has the argument.
package static
