package daemon

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"
)

const (
	// bindPatience is how long a start tries an address that is in use. The sockets of an io_uring are closed some time after the
	// process that had it was killed, so a daemon that is started at once finds its predecessor's port taken.
	bindPatience = 3 * time.Second
	bindPause    = 20 * time.Millisecond // between two attempts
)

// A binder opens the listeners of a start. All of them share one bindPatience: a second daemon by mistake should end soon.
type binder struct {
	log   *slog.Logger
	until time.Time // when patience ends; zero while no address was in use
}

// bind calls listen until it returns something else than "address in use", patience is over or ctx ends. It returns listen's last error.
func (b *binder) bind(ctx context.Context, listen func() error) error {
	err := listen()
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if b.until.IsZero() {
		b.until = time.Now().Add(bindPatience)
	}
	b.log.Warn("address in use, trying for "+time.Until(b.until).Round(100*time.Millisecond).String()+" more", "error", err)
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
