// Package static is the store for worker ids given by hand. For each worker id, a file remembers up
// to when ids may have been issued, so a daemon never issues below that again, whatever the clock
// did between its runs.
//
// The guarantee: on a local disk that keeps what it has synced and is neither set back nor copied,
// the windows of one worker id never overlap, through crashes, kills, power cuts and any clock.
// Not promised: anything about another host with the same worker id, about a state directory that
// was restored from a backup while the clock was wrong, or, without a directory (Ephemeral), about a
// run that starts before the wall clock has passed the previous run's last id.
//
// Use it with a workerid.Keeper:
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
//		First:       layout.First,
//	})
//	if err != nil { ... }                        // wrong settings or state: print it and exit
//	defer store.Close()                          // after Keeper.Run has returned
//
// with Heartbeat as the Keeper's and, for lane i, the Request{Min: Workers[i], Max: Workers[i]}.
// Generators are made with the word that Store.Word returns. Without a directory, use
// NewEphemeral(EphemeralConfig{...}). Inspect, Adopt and Reset are for operators.
//
// # The file
//
// DIR/worker-7.state is two copies of one record, each 4096 bytes of text: see record.go. A new
// high-water mark is written to the first copy and synced, then to the second and synced. Only then
// are ids issued up to it. So at every moment at least one copy is whole and its mark is at or above
// every id. Each start writes a new file beside the old one and renames it over that, because the
// page cache may hide an earlier write error. If there is no room, it overwrites the file. The
// process that uses the file holds a flock on DIR/worker-7.lock. With Config.Share one more file has a
// mark for all, see sharedMark.
//
// # The word
//
// Marks are far ahead of the clock, so that ids go on while the disk stalls. A restart does not have
// to wait for them: a generator's word outlives the process in a Memory, and lastIssued says when
// it can be trusted. If it cannot, windows also begin above what any run may have issued by the same
// clock, because the file may be an older copy. docs/LEASES.md has the argument.
package static
