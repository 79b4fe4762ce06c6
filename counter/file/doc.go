// Package file records sequences in files: one per sequence, in a directory on a local disk.
//
// The guarantee: on a disk that keeps what it has synced and that is neither set back nor copied, no block
// is granted twice, through crashes, kills, power cuts, torn writes and full disks, by any number of
// processes of one machine. No clock is involved. Not promised: anything about a file that was deleted
// and defined again, or that was set back to an older one while no daemon ran, as by restoring a backup.
// Raise is for both.
//
// # The files
//
// DIR/orders.sequence is two copies of one record, see record.go and package durable. Every call that
// changes a record takes the lock of DIR/orders.lock, reads the record, writes it and lets the lock go;
// so `katsubushi name` works beside a running daemon, and two daemons on one directory get
// different blocks. The lock of DIR/orders.strict is held for life by the process that issues a
// sequence with order=strict.
//
// A process overwrites a file in place only if it made that file itself and no other one has written since.
// Otherwise it writes a new file and renames it, because the page cache may hide an error that another
// process got. The exception is a full disk.
//
// DIR/changes holds a text that is replaced when a sequence is defined, raised or retired, so that
// daemons need to read one small file every second. Each daemon keeps the lock of a file of its own, such
// as DIR/K5XQ3ZJ7T2M4WB6LHD3YNC5EFA.daemon, and writes down there which of these texts it has acted on:
// so `katsubushi name raise` knows who runs, and who has not confirmed.
package file
