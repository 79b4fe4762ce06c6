// Package ledger has the rules by which sequences are kept, once for all stores: define, reserve, return,
// raise, revive, retire, notes, doubt and births. A Driver reads records and compares and sets them; it decides
// nothing. A Ledger over a Driver is a counter.Store and a counter.Admin.
//
// The guarantee: no block is granted twice, if Swap is one compare-and-set inside the store. Not promised:
// anything about a record that was set back, lost or made again while no process ran that had used it. Raise is
// for that.
//
// # The rules
//
//   - A change reads the record, decides, and swaps it; if another daemon has written in between, it begins again.
//     Each write has a token of its own. A write whose answer was lost is recognised by it.
//   - A Ledger remembers of each sequence the largest value that it was granted, and the birth of the record. So
//     it notices a record that was lost, made again, or set back under it, and refuses it until Raise has put
//     the floor above what it was granted.
//   - A record that belongs to another place (Found.Foreign) is refused, until Raise takes it over.
//   - A block that is given back is not used any more, whether the write succeeds or not.
//   - Only Define, Raise, Revive and Retire are changes that daemons are told of.
//
// # What only some stores have
//
// A Driver may implement one of these, and each is called at one place:
//
//   - Preparer: the place for records has to be made.
//   - Locker: a store in which reading and writing are not one step without a lock.
//   - Admitter: the daemon that reserves or gives back must lead the sequence.
//   - Settler: a store that may lose what it has confirmed, so that what an operator said counts only later.
//   - Noter: the store knows its daemons.
package ledger
