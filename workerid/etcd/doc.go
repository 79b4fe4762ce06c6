// Package etcd leases worker ids from a pool in etcd. Package cas has the rules; this package is its
// Driver, with the settings.
//
//	/PATH/NS/meta        the pool
//	/PATH/NS/id/0007     the record of a worker id
//	/PATH/NS/on/0007     the presence of its holder, with the daemon's lease
//	/PATH/NS/peers/NAME  a daemon's announcement, with the same lease
//
// Texts are compared, and never revisions: after a restore, revisions come again.
package etcd
