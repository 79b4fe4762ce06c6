// Package etcdlink talks to etcd for the stores of worker ids and of sequences: operations, and
// errors in words. It is the only package that knows etcd's client library.
//
// A Link is for stores that do not care over which connection a call goes. A Conn is one connection
// that does not reconnect, so its user notices that it broke.
package etcdlink
