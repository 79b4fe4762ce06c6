// Package script is the protocol between daemons and Redis: the scripts that run inside Redis, their
// arguments and answers, and what a daemon must remember between calls. It does no I/O, so that a
// simulation can lose, delay and repeat every message.
//
// # Keys
//
// A pool is five keys. The first three are those of shogo82148/yaraus, whose tools can read them.
//
//	NS:ids      sorted set   member A1, B10, C100 (a letter for the number of digits, then the number);
//	                         score: when its lease ends, Unix s
//	NS:clients  hash         member -> owner
//	NS:stats    hash         min, max, and counters
//	NS:hw       hash         member -> "mark token lo", see below
//	NS:meta     hash         hist seen floor fingerprint lmax eps, and replicas, yaraus
//
// The mark is the high-water mark, the last Unix ms that may have ids: the worker id's next window
// starts above it. Only a release lowers it, after the generator was sealed, and not below lo − 1,
// where lo is the start of the holder's window. The token is the request id of the call that wrote
// the record.
//
// # Incarnations
//
// An incarnation of the store (hist) is a period in which it forgot nothing. Its name consists of
// the server's run id, its replication id (a fail-back without a restart changes only that one) and
// a request id. A new incarnation begins when a script finds a server other than the last one, no
// pool where there was one, a used worker id without a record, or a record that is older than its
// holder knows. Its floor lies above every window that may have been granted and forgotten. Until
// the floor has passed, holders that can prove that they hold a worker id keep it, and no other daemon
// gets one.
//
// # Request ids
//
// To extend a lease, a daemon lists the request ids that the record may have: that of the last
// request whose answer it got, and those of all requests since. So a lost answer does no harm, and
// of two copies of one process only one goes on.
package script
