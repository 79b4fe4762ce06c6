package daemon

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"
)

const (
	// bindPatience is how long a start retries an address in use. After a process is killed, the
	// kernel closes the sockets of its io_uring only some time later, so a daemon started at once
	// still finds the port in use.
	bindPatience = 3 * time.Second
	bindPause    = 20 * time.Millisecond // between two attempts
)

// A binder opens the listeners at startup. They share one bindPatience, so that a second daemon
// started by mistake ends soon.
type binder struct {
	log   *slog.Logger
	until time.Time // when patience ends; zero until an address was in use
}

// bind calls listen until it returns anything but "address in use", patience is over or ctx ends.
// It returns listen's last error.
func (b *binder) bind(ctx context.Context, listen func() error) error {
	err := listen()
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if b.until.IsZero() {
		b.until = time.Now().Add(bindPatience)
	}
	b.log.Warn("address in use, trying for "+time.Until(b.until).Round(100*time.Millisecond).String()+" more", "error",
		err)
	for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(b.until) {
		select {
		case <-time.After(bindPause):
			err = listen()
		case <-ctx.Done():
			return err
		}
	}
	return err
}
