//go:build !linux

package main

import "runtime/debug"

// freeStartup gives back the memory that only the start needed.
func freeStartup() { debug.FreeOSMemory() }
