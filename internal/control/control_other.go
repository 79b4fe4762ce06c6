//go:build !linux

package control

import "time"

// A Control cannot be made on this system.
type Control struct{}

// Listen always returns ErrUnsupported here.
func Listen() (*Control, error) { return nil, ErrUnsupported }

// Close does nothing here.
func (*Control) Close() error { return nil }

// Serve does nothing here.
func (*Control) Serve(Commands) {}

// Find always returns ErrUnsupported here.
func Find() ([]Daemon, error) { return nil, ErrUnsupported }

// Ask always returns ErrUnsupported here.
func Ask(int, string, time.Duration, time.Duration) (string, error) { return "", ErrUnsupported }
