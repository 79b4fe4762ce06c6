package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"
)

const daemonField = "daemon:"

//go:embed note.lua
var noteScript string

// Learnt implements ledger.Noter.
func (d driver) Learnt(since string) string { return strings.TrimPrefix(since, "=") }

// Sign implements ledger.Noter. Whether it succeeds does not matter to a daemon.
func (d driver) Sign(_ context.Context, text string) error {
	_, _, _ = d.run(noteScript, []string{d.me, text}, 0)
	return nil
}

// signOff takes the note away. It waits for its turn.
func (d driver) signOff() {
	d.wire.Turn <- struct{}{}
	defer func() { <-d.wire.Turn }()
	if !d.Signed() || d.wire.Link == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = d.Forget(ctx, d.me)
}

// Notes implements ledger.Noter. A server without any sequence has lost the notes too, such as a killed master that is
// back before it is made a replica: it does not say that all daemons have learnt of everything.
func (d driver) Notes(context.Context) (notes map[string]string, changes string, err error) {
	all, changes, notes, err := d.everything()
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no notes of daemons: Redis at %s has no sequence as %s", d.At(""), d.key)
	}
	return notes, changes, err
}

// Forget implements ledger.Noter.
func (d driver) Forget(ctx context.Context, key string) (bool, error) {
	l := d.wire.Link
	if err := l.Conn.HDel(ctx, d.key, key).Err(); err != nil {
		return false, fmt.Errorf("redis: %s: %w", l.Addr, err)
	}
	return true, nil
}
