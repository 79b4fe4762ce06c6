// Package redis keeps a pool of worker ids in Redis: alone, behind Sentinels, or in a cluster.
//
// The guarantee: windows of one worker id never overlap, whatever daemons, networks and clocks do, if every write that Redis acknowledged
// is on every server that can become the master; or else, if two masters never serve at once, no lease is longer than the pool's, and no
// clock that a grant was made by differs from a daemon's by more than MaxSkew. Not promised: anything after old keys were put into a running Redis, or beside
// clients of yaraus or raus, whose ids go by clocks.
//
// # How
//
// Scripts do everything in one step each, inside Redis; what they keep and why is told in package script. A Store adds the connection:
//
//   - one, dedicated, and no call is ever repeated by the client library: a repetition would be a lost answer;
//   - a call that has no answer in time may still be carried out. The store says so, goes on reading, and names the call's token in later
//     ones; meanwhile it sends nothing else. Only when patience ends it looks for the master again;
//   - WAIT follows the script on the same connection, since it counts who has what was written there.
package redis
