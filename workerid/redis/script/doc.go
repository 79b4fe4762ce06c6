// Package script is what daemons and Redis say to each other: the scripts that run inside Redis, their arguments and answers, and what
// a daemon must remember between calls. It does no I/O, so that a simulation can lose, delay and repeat every message.
//
// # Keys
//
// A pool is five keys. The first three are those of shogo82148/yaraus, whose tools can read them.
//
//	NS:ids      sorted set   member A1, B10, C100 (a letter for the number of digits, then the number); score: when its lease ends, Unix s
//	NS:clients  hash         member -> owner
//	NS:stats    hash         min, max, and counters
//	NS:hw       hash         member -> "mark token lo"
//	NS:meta     hash         hist seen floor fingerprint lmax eps, and replicas, yaraus
//
// A mark is the last Unix ms that may have ids: the worker id's next window starts above it. It is never lowered but by a release, whose
// generator is sealed, and then not below lo − 1, the start of the holder's window. The token names the request that wrote the record.
//
// # Histories
//
// A history is a stretch of time in which nothing was forgotten. It is named by the server's run id, its replication id (a fail-back
// without a restart changes only that) and a token. The next one begins when a script finds another server than the last one did, no
// pool where there was one, a used worker id without a record, or a record that is older than its holder knows. Its floor lies above every
// window that can have been granted and forgotten. Until it has passed, those who hold a worker id and can prove it keep it, and nobody
// else gets one.
//
// # Tokens
//
// Whoever extends a lease names the tokens that its record may bear: that of the last request whose answer was heard, and those of all
// requests since. So a lost answer does no harm, and of two copies of one process only one goes on.
package script
