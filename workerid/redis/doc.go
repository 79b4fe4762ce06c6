// Package redis keeps a pool of worker ids in Redis: on one server, behind Sentinels, or in a cluster.
//
// The guarantee: windows of one worker id never overlap, whatever daemons, networks and clocks do,
// if every write that Redis acknowledged is on every server that can become the master. Without
// that it holds if two masters never serve at once, no lease is longer than the pool's, and no
// clock by which a grant was made differs from a daemon's by more than MaxSkew. Not promised:
// anything after old keys were put into a running Redis, or beside clients of yaraus or raus, which
// issue by their clocks.
//
// # How
//
// Scripts do everything inside Redis, each in one atomic step; package script says what they keep and
// why. A Store adds the connection:
//
//   - There is one dedicated connection. The client library never repeats a call, because the answer to
//     the first attempt would be lost.
//   - A call that is not answered in time may still be carried out. The Store tells the caller so, keeps
//     reading, sends nothing else meanwhile, and names the call's request id in later calls.
//     Only after redislink.Patience it looks for the master again.
//   - WAIT follows the script on the same connection, because it counts the replicas that have what was
//     written on that connection.
package redis
