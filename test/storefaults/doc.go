// Package storefaults breaks real stores with a compare-and-set, such as ZooKeeper and etcd, below
// daemons that lease worker ids from them. Daemons are keepers with the real store, in this process
// or in one of their own. Every window that one of them gets is compared with all others of its
// worker id. Faults lets all of this happen that may happen to each kind; a package's tests add its own.
//
// Nothing is measured: a fault lasts until what it must lead to has happened.
package storefaults
