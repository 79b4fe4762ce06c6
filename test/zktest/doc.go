// Package zktest starts real ZooKeeper servers for tests: one, or several that elect a leader.
// Everything listens on loopback, lives in temporary directories and ends with its test, or with the
// tests of a package.
package zktest
