//go:build !linux

package upgrade

import (
	"context"
	"os"
	"time"
)

// A Link cannot be made on this system.
type Link struct{}

// Close does nothing here.
func (*Link) Close() error { return nil }

// Deadline does nothing here.
func (*Link) Deadline(time.Time) {}

// Send always returns ErrUnsupported here.
func (*Link) Send(Message, ...int) error { return ErrUnsupported }

// Receive always returns ErrUnsupported here.
func (*Link) Receive() (Message, []int, error) { return Message{}, nil, ErrUnsupported }

// CloseAll does nothing here.
func CloseAll([]int) {}

// An Origin cannot be made on this system.
type Origin struct{ *Link }

// FromEnvironment returns nil here.
func FromEnvironment() (*Origin, error) { return nil, nil }

// Detach does nothing here.
func (*Origin) Detach() error { return nil }

// A Child cannot be started on this system.
type Child struct{ *Link }

// Start always returns ErrUnsupported here.
func Start(string, []string, *os.File) (*Child, error) { return nil, ErrUnsupported }

// Pid returns 0 here.
func (*Child) Pid() int { return 0 }

// Signal does nothing here.
func (*Child) Signal(os.Signal) {}

// Exited returns nil here.
func (*Child) Exited() <-chan struct{} { return nil }

// Flushed does nothing here.
func (*Child) Flushed() {}

// Kill does nothing here.
func (*Child) Kill() {}

// End does nothing here.
func (*Child) End(context.Context, bool) error { return nil }

// Await always returns ErrUnsupported here.
func (*Child) Await(context.Context, Kind) (Message, error) { return Message{}, ErrUnsupported }
