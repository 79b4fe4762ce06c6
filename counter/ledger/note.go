package ledger

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

const (
	noteEvery   = 10 * time.Second // a daemon that has learnt nothing new says that it is there
	forgetAfter = 24 * time.Hour   // a daemon that has not said anything
)

// A note is what a daemon writes down in a store of itself: which changes it has learnt of. The zero note
// was never written.
type note struct {
	since string
	at    time.Time
}

// next returns what to write now that the daemon has learnt of all changes up to since; empty = nothing.
func (n *note) next(since string, now time.Time) string {
	if !n.at.IsZero() && n.since == since && now.Sub(n.at) < noteEvery {
		return ""
	}
	n.since, n.at = since, now
	host, _ := os.Hostname()
	return fmt.Sprintf("%d %s/%d %s", now.UnixMilli(), strings.ReplaceAll(host, " ", "_"), os.Getpid(), since)
}

// readNote reads the note of a daemon: who it is, and up to which changes it has learnt.
func readNote(text string, now time.Time) (d counter.Daemon, since string) {
	at, rest, _ := strings.Cut(text, " ")
	d.Name, since, _ = strings.Cut(rest, " ")
	ms, _ := strconv.ParseInt(at, 10, 64)
	d.Silent = max(now.Sub(time.UnixMilli(ms)), 0)
	return d, since
}

// sign notes that this process has learnt of all changes up to since, if it is time.
func (l *Ledger) sign(ctx context.Context, since string) {
	n, ok := l.d.(Noter)
	if !ok {
		return
	}
	l.mu.Lock()
	text := l.note.next(n.Learnt(since), time.Now())
	l.mu.Unlock()
	if text != "" && n.Sign(ctx, text) != nil {
		l.mu.Lock()
		l.note = note{} // to be tried again
		l.mu.Unlock()
	}
}

// Signed reports whether there is a note to take away when the daemon ends.
func (l *Ledger) Signed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.note.at.IsZero()
}

// Behind implements counter.Admin. A daemon that was killed within the last day may be among them: it cannot say
// that it has ended.
func (l *Ledger) Behind(ctx context.Context) ([]counter.Daemon, error) {
	n, ok := l.d.(Noter)
	if !ok {
		return nil, counter.ErrNoRoll
	}
	return ask(ctx, l, func() (behind []counter.Daemon, err error) {
		notes, changes, err := n.Notes(ctx)
		for key, text := range notes {
			d, since := readNote(text, time.Now())
			gone := false
			if d.Silent > forgetAfter {
				if gone, err = n.Forget(ctx, key); err != nil {
					return behind, err
				}
			}
			if since == changes && d.Name != "" || gone {
				continue
			}
			if d.Name == "" {
				d = counter.Daemon{Name: "with the file " + key}
			}
			behind = append(behind, d)
		}
		return behind, err
	})
}
