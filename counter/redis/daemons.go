package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

const (
	daemonField = "daemon:"
	noteEvery   = 10 * time.Second // a daemon that has learnt nothing new says that it is there
	forgetAfter = 24 * time.Hour   // a daemon that has not said anything
)

//go:embed note.lua
var noteText string

var noteScript = scriptOf(noteText)

// A note is what a daemon tells Redis of itself: which changes it has learnt of. Nothing depends on it but
// what Behind says.
type note struct {
	field string
	name  string    // HOST/PID
	since string    // the changes
	at    time.Time // when it was told; zero = never
}

func newNote() note {
	host, _ := os.Hostname()
	name := strings.ReplaceAll(fmt.Sprintf("%s/%d", host, os.Getpid()), " ", "_")
	return note{field: daemonField + rand.Text(), name: name}
}

// sign notes that this process has learnt of all changes up to since, if Redis does not know that yet. It
// needs the turn. Whether it succeeds does not matter to a daemon.
func (s *Store) sign(since string) {
	n := &s.noted
	if !n.at.IsZero() && n.since == since && time.Since(n.at) < noteEvery {
		return
	}
	n.since, n.at = since, time.Now()
	_, _, _ = s.run(noteScript, []string{n.field, n.name + " " + since}, 0)
}

// signOff takes the note away. It waits for its turn.
func (s *Store) signOff() {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	if s.noted.at.IsZero() || s.wire.Link == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.wire.Link.Conn.HDel(ctx, s.key, s.noted.field)
	s.noted.at = time.Time{}
}

// Behind implements counter.Roll. It forgets daemons that have been silent for a day.
func (s *Store) Behind(ctx context.Context) ([]counter.Daemon, error) {
	return withTurn(ctx, s, func(l *redislink.Link) (behind []counter.Daemon, err error) {
		all, err := s.all()
		if all.daemons == nil {
			return nil, err
		}
		for field, text := range all.daemons {
			at, rest, _ := strings.Cut(text, " ")
			name, since, _ := strings.Cut(rest, " ")
			ms, _ := strconv.ParseInt(at, 10, 64)
			silent := time.Duration(all.on.Now-ms) * time.Millisecond
			switch {
			case silent > forgetAfter:
				if err := l.Conn.HDel(ctx, s.key, field).Err(); err != nil {
					return nil, fmt.Errorf("redis: %s: %w", l.Addr, err)
				}
			case since != all.changes:
				behind = append(behind, counter.Daemon{Name: name, Silent: max(silent, 0)})
			}
		}
		return behind, nil
	})
}
