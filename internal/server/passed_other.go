//go:build !linux

package server

import (
	"errors"
	"net"
)

var errNotPassed = errors.New("server: sockets are passed to other processes on Linux only")

// PassedAddr always returns an error here.
func PassedAddr(int) (net.Addr, error) { return nil, errNotPassed }

// PassedListeners always returns an error here.
func PassedListeners([]int, int) ([]net.Listener, error) { return nil, errNotPassed }

// PassedUDP always returns an error here.
func PassedUDP(int) (*net.UDPConn, error) { return nil, errNotPassed }

// Descriptor always returns an error here.
func Descriptor(any) (int, error) { return -1, errNotPassed }

// CopyDescriptor always returns an error here.
func CopyDescriptor(int) (int, error) { return -1, errNotPassed }

// CloseDescriptors does nothing here.
func CloseDescriptors([]int) {}

// Unblock does nothing here.
func Unblock([]int) {}
