package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// How the windows of one process come to the process that succeeds it. Fixed worker ids are handed over; leased
// ones are not, because the successor has leased its own.

const (
	// reopenPatience is how long a store is opened again and again: the kernel may take a while to let go of
	// what a killed process had.
	reopenPatience = 3 * time.Second
	reopenPause    = 20 * time.Millisecond // between two attempts

	// grantPatience is how long clients may have to wait for the first window of worker ids that were handed over.
	grantPatience = 10 * time.Second
	// diskPatience is how long the disk of the state directory may take to write a file.
	diskPatience = 2 * time.Second
	// clocksApart is more than the id clocks of two processes differ.
	clocksApart = 10 * time.Millisecond
)

// Handed is what the successor must know of the ids that were issued.
type Handed struct {
	Floor  int64          // none lies after it, Unix ms
	Ahead  time.Duration  // of the id clock before the wall clock
	Places []issuer.Place // how far ids of other layouts came, for fixed worker ids
}

// GiveAway seals the lanes of fixed worker ids and gives those back. No request may be minting. Leased
// worker ids stay, and no request may mint until Stop or TakeBack.
func (h *Holder) GiveAway() (Handed, error) {
	if !h.c.leased() {
		if err := errors.Join(h.end(), h.store.Close()); err != nil {
			return Handed{}, fmt.Errorf("worker ids cannot be given back: %w", err)
		}
		h.places = h.Issuer.Places()
	}
	return Handed{h.Issuer.Position(), h.Clock.Ahead(), h.places}, nil
}

// TakeBack takes back what was given away: the successor has ended. served tells that it may have issued ids. TakeBack
// waits until ids can be issued, but not for long: then clients are told why they cannot.
func (h *Holder) TakeBack(ctx context.Context, served bool) error {
	if h.c.leased() {
		return nil
	}
	h.floor = h.Issuer.Position()
	if served {
		h.places = nil // the successor has gone on there
		h.floor = max(h.floor, h.Clock.Now()+(h.c.MaxRunAhead+clocksApart).Milliseconds())
	}
	if err := h.reopen(context.Background(), reopenPatience); err != nil {
		return err
	}
	select {
	case <-h.Serving():
	case <-time.After(grantPatience):
	case <-ctx.Done():
	}
	return nil
}

// TakeOver makes a Holder that Succeeds go on where its predecessor was, and waits until ids can be issued. given is
// nil if the predecessor died before it said where that is. died tells that the predecessor has died: then there is no
// hurry.
func (h *Holder) TakeOver(ctx context.Context, given *Handed, died bool) error {
	if given != nil {
		h.Clock.SetAhead(given.Ahead)
		h.floor, h.places = given.Floor, given.Places
		if err := h.Issuer.Raise(given.Floor); err != nil {
			return err
		}
	}
	if h.c.leased() {
		h.runClock()
		return nil
	}
	patience, wait := time.Duration(0), grantPatience
	if died {
		patience, wait = reopenPatience, time.Hour // as at a start
	}
	if err := h.reopen(ctx, patience); err != nil {
		return err
	}
	select {
	case <-h.Serving():
		h.runClock()
		return nil
	case <-time.After(wait):
		return fmt.Errorf("no id can be issued: %s", h.Status())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reopen opens the store of fixed worker ids again, and keeps their windows. While that fails, it tries again until
// patience is over or ctx ends.
func (h *Holder) reopen(ctx context.Context, patience time.Duration) error {
	for until := time.Now().Add(patience); ; time.Sleep(reopenPause) {
		store, err := h.open()
		if err == nil {
			h.mu.Lock()
			h.store = store
			h.keeper = h.newKeeper()
			h.mu.Unlock()
			h.Issuer.Carry(h.places)
			h.keep()
			return nil
		}
		if !time.Now().Before(until) || ctx.Err() != nil {
			return err
		}
	}
}

// DiskAnswers returns an error if the disk of the state directory does not answer within diskPatience.
// State files could not be given back then, nor taken again, because the write that hangs keeps the lock.
func (h *Holder) DiskAnswers() error {
	if h.c.leased() || h.c.StateDir == "" {
		return nil
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		writeToDisk(filepath.Join(h.c.StateDir, "upgrade.tmp"))
	}()
	select {
	case <-answered:
		return nil
	case <-time.After(diskPatience):
		return fmt.Errorf("the disk of the state directory has not answered for %v", diskPatience)
	}
}

// writeToDisk writes a file and removes it. An error is an answer too: a full disk is overwritten in place. What
// has the name is replaced and not followed: it may be a link to another file.
func writeToDisk(path string) {
	os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	f.WriteString("written before an upgrade\n")
	f.Sync()
	f.Close()
	os.Remove(path)
}
