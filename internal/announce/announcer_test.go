package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// directory is a store's announcements in memory, and what was called.
type directory struct {
	mu      sync.Mutex
	entries map[string]string
	calls   []string // texts, in order
	err     error
	hang    bool // until the call's time is over
}

func (d *directory) Announce(ctx context.Context, name, text string) error {
	d.mu.Lock()
	hang, err := d.hang, d.err
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, text)
	if err != nil {
		return err
	}
	if d.entries == nil {
		d.entries = map[string]string{}
	}
	if d.entries[name] = text; text == "" {
		delete(d.entries, name)
	}
	return nil
}

func (d *directory) Peers(context.Context) (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.entries), d.err
}

func (d *directory) set(err error, hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.hang = err, hang
}

// forbidden is a refusal that lasts.
type forbidden struct{}

func (forbidden) Error() string             { return "no right" }
func (forbidden) RetryAfter() time.Duration { return 10 * time.Minute }
func (forbidden) Reason() string            { return "no right for anybody" }

// announcing are the calls of an Announcer's script. A daemon that is not ready is looked at once a second.
func announcing(t *testing.T) steps.Calls {
	var a *Announcer
	var dir directory
	var log childprocess.Log
	var mu sync.Mutex // guards what follows
	is := announcement.Announcement{Addr: "h:1", Version: "3.0.0", Fingerprint: "f"}
	looks, called := 0, 0
	return steps.Calls{
		"start": func(again time.Duration) {
			a = NewAnnouncer(AnnouncerConfig{
				Directory: &dir, Name: "d", Again: again, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Now: func() int64 { return time.Now().UnixMilli() },
				State: func() announcement.Announcement {
					mu.Lock()
					defer mu.Unlock()
					looks++
					return is
				},
			})
			go a.Run(t.Context())
			go func() { // as the daemon's clock does
				for tick := time.NewTicker(time.Second); t.Context().Err() == nil; a.Look() {
					select {
					case <-tick.C:
					case <-t.Context().Done():
					}
				}
			}()
		},
		"ready": func(ready bool, workers ...uint64) {
			mu.Lock()
			defer mu.Unlock()
			is.Ready, is.Workers = ready, workers
		},
		"store": func(how string) {
			dir.set(map[string]error{"fails": errors.New("no quorum"), "forbids": fmt.Errorf("store: %w", forbidden{})}[how],
				how == "hangs")
		},
		"sleep": time.Sleep,
		"leave": func() (string, error) {
			began := time.Now()
			err := a.Leave(t.Context())
			return fmt.Sprint("after ", time.Since(began)), err
		},
		"end": func() error { return a.End(t.Context()) },
		"entry": func() string {
			entries, _ := dir.Peers(t.Context())
			return entries["d"]
		},
		"calls": func() string {
			dir.mu.Lock()
			defer dir.mu.Unlock()
			list := dir.calls[called:]
			called = len(dir.calls)
			return fmt.Sprintf("%d, of them %d ready", len(list), strings.Count(strings.Join(list, ""), `"ready":true`))
		},
		"looks": func() int {
			mu.Lock()
			defer mu.Unlock()
			defer func() { looks = 0 }()
			return looks
		},
		"counts": func() string {
			written, failed := a.Counts()
			return fmt.Sprintf("%d written, %d failed", written, failed)
		},
		"refusal": func() string { return a.Refusal() },
		"log":     func() string { return script.Logged(log.String()) },
	}
}

// TestAnnouncer: each change is written once, and what the store did not take, or forgets, again.
func TestAnnouncer(t *testing.T) { steps.Run(t, "testdata/announcer.txt", announcing) }

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		n := NewName()
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`).MatchString(n) || strings.HasPrefix(n, ".") || seen[n] {
			t.Errorf("name %q", n)
		}
		seen[n] = true
	}
}
