//go:build !linux

package clients

import "net/netip"

// readSockets is for Linux.
func readSockets([]netip.AddrPort, func(socket) bool) error { return errRefused }
