// Package generator makes unique 64-bit ids that are roughly in the order of time, after Twitter's
// snowflake (2010): tick, worker id and sequence are packed into one integer.
//
// The guarantee: Snowflakes whose windows do not overlap, or whose worker ids differ, issue distinct
// ids, whatever the clock says. A Snowflake never issues a position twice, and never outside its
// window. Not promised: that windows do not overlap, which is the duty of what grants them (package
// workerid), and that ids of different worker ids are in order.
//
// A Sequence issues the values of blocks that were reserved for it (package counter). It never issues
// a value twice, nor one that is in none of its blocks, and its values rise.
//
// Two things are made from a Snowflake's positions. A TextLayout writes one of its numbers as a UUID,
// ULID or ObjectID. A Companion issues numbers of another layout from the same window.
//
// The package does no I/O and reads no clock: the present is an argument. It depends only on the
// standard library; its tests import other modules to compare with them.
package generator
