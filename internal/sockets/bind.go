package sockets

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"
)

const (
	// Patience is how long a start retries an address in use. After a process is killed, the
	// kernel closes the sockets of its io_uring only some time later, so a daemon started at once
	// still finds the port in use.
	Patience = 3 * time.Second
	// Pause is between two attempts.
	Pause = 20 * time.Millisecond
)

// A Binder opens the listeners at startup. They share one Patience, so that a second daemon
// started by mistake ends soon.
type Binder struct {
	Log   *slog.Logger
	until time.Time // when patience ends; zero until an address was in use
}

// Bind calls listen until it returns anything but "address in use", patience is over or ctx ends.
// It returns listen's last error.
func (b *Binder) Bind(ctx context.Context, listen func() error) error {
	err := listen()
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if b.until.IsZero() {
		b.until = time.Now().Add(Patience)
	}
	b.Log.Warn("address in use, trying for "+time.Until(b.until).Round(100*time.Millisecond).String()+" more", "error",
		err)
	for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(b.until) {
		select {
		case <-time.After(Pause):
			err = listen()
		case <-ctx.Done():
			return err
		}
	}
	return err
}
