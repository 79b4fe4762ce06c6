//go:build !unix

package main

// openFiles is how many connections are reasonable where the system sets no limit on descriptors.
func openFiles() int { return 16384 }
