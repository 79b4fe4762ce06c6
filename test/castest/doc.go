// Package castest is the conformance suite of drivers for compare-and-set stores: what every cas.Driver
// must do. It compares a driver with memcas, call by call, and then runs storetest over it.
package castest
