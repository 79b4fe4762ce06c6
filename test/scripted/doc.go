// Package scripted runs the scripts of a pool of worker ids in a real Redis that is told which keys it has, what its
// clock says, and what INFO says of it. So a simulation can have several servers and clocks, copy what they hold and
// run other scripts than those that ship.
package scripted
