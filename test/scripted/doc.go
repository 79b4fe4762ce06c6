// Package scripted runs the scripts of a pool of worker ids in a real Redis that is told which keys it has, what its
// clock says, and what INFO says of it: what a Server of package redismodel has. So a test can compare that model with
// the scripts, or use the scripts in its place.
package scripted
