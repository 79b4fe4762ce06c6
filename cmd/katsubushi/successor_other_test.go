//go:build !linux

package main

// actAsSuccessor is for upgrades, which this system does not have.
func actAsSuccessor() bool { return false }
