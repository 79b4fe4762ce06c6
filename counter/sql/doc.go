// Package sql keeps sequences in a table of PostgreSQL, MySQL or MariaDB, one row each. Daemons on
// many hosts may share it.
//
// The guarantee: that of package counter, as long as a row whose write was confirmed survives. No
// clock is involved. Every write is one UPDATE that compares the row's token and the server's
// history, so it does not matter who writes between reading and writing, nor how often a driver or a
// proxy repeats a statement. Not promised: order across daemons (order=strict), and no gaps.
//
// # Histories
//
// A server that was restored, or a replica that was promoted, may lack the last writes, and then
// grants the same values again. So a row names the history that wrote it: on PostgreSQL the cluster,
// its timeline and the table; on MySQL the server's server_uuid; on MariaDB server_id and server_uid,
// which is a hash of a MAC address and the port, not of the data.
// A row of another history is refused (counter.ErrForeign) until an operator has raised it. What a
// history does not show: MySQL or MariaDB that fails over from A to B and back to A without B's
// writes, and a copy of a server's files that is set back in place. A Store that was granted more
// than such a row says refuses it too, but one that is opened afterwards cannot know.
//
// # Leaf's table
//
// With ?layout=leaf the table is that of Meituan's Leaf, which other programs may go on to use. Its rows
// name no history and no token, so the guarantee also needs that no operator lowers max_id, and only a Store
// that was granted more notices it. Return always answers counter.ErrStale. See leaf.go.
//
// # Concurrency
//
// Calls for one sequence run one after the other in a process, those for different ones at once. A
// Store holds no lock in the database between two statements, so a stopped daemon stops no other one.
package sql
