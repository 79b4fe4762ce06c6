//go:build unix

package main

import (
	"os"
	"syscall"
)

// upgradeSignal asks for an upgrade.
var upgradeSignal os.Signal = syscall.SIGUSR2
