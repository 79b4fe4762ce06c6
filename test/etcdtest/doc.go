// Package etcdtest starts real etcd members for tests: one, or three that elect a leader. Everything
// listens on loopback, lives in temporary directories and ends with its test.
package etcdtest
