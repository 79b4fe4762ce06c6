// Package zookeeper keeps a pool of worker ids in ZooKeeper. It is a driver of package cas; package
// pool has the rules and the guarantee.
//
// # Keys
//
// All are below the path of the URL and the pool's name, NAME/:
//
//	meta         what all daemons share
//	id/0007      the record of worker id 7, persistent
//	on/0007      its presence, ephemeral
//	peers/NAME   a daemon's announcement, ephemeral
//
// # How
//
//   - There is one client of the library for each TCP connection, and its dialer works once. So the
//     library never reconnects, and what was checked for one connection is never sent over another,
//     not even a request that still waits in the library's queue.
//   - The session outlives the connection all the same: a wire writes the kept session's id and
//     password into the first packet of the next connection. A new client of
//     the library says there that it has seen nothing, so a server that was restored to an earlier state
//     accepts it at once; servers refuse clients that have seen a later state, and the library would
//     ask them for ever.
//   - A change is one multi: check, setData, create and delete. Versions are those that were read or
//     written over the same connection: after a restore they come again.
//   - Reads follow a sync. If the leader has been replaced without knowing it, they may still be
//     behind. That does no harm, because every change compares what it relies on.
//   - The library's calls take no context. One that takes too long is left alone, and its answer is
//     discarded; later calls follow it over the same connection. If it takes very long, the connection
//     is closed.
package zookeeper
