//go:build !unix

package main

import "os"

// upgradeSignal asks for an upgrade; here nothing does.
var upgradeSignal os.Signal
