// Package generator makes unique 64-bit ids whose order is roughly that of time, after Twitter's snowflake (2010): a tick, a worker id
// and a sequence packed into one integer.
//
// The guarantee: ids of Snowflakes whose windows do not overlap (or whose worker ids differ) are distinct, whatever the clock says,
// because a Snowflake never issues the same position twice and never outside its window. What is not promised: that the windows
// do not overlap - that is the duty of whoever grants them (package workerid) - and that ids of different workers are in order.
//
// The package does no I/O and reads no clock: the present is an argument. It depends on the standard library alone; the modules that
// its tests import are there to be compared with.
package generator
