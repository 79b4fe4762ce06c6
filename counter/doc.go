// Package counter keeps sequences of numbers for a daemon. A Store records, for each sequence, the
// first free value; it grants blocks of values from there. A Record is what a Store keeps,
// with the rules by which it changes, so that stores only have to read and write it.
//
// The guarantee: no two blocks of a sequence share a value, and a block is recorded before any client
// learns of it. So if the Store loses no write that it confirmed, no value is issued twice, whatever
// clocks, crashes and lost answers do. Not promised: that there are no gaps. A crash loses what was
// left of the blocks at hand, and a call whose answer was lost may have granted a block that nobody
// uses.
//
// # The rules of a Store
//
//   - What a call returns was recorded before the call returns, so that a crash cannot undo it.
//   - The next value never goes down, except by Return. Return compares the token, and every write,
//     also Raise, Retire and another daemon's Reserve, changes the token.
//   - Step and offset are part of the record: a grant never depends on what the caller believes.
//   - A record is never deleted and never made again. If it is missing or another machine's, all calls
//     fail until an operator has said which values are free (Raise).
package counter
