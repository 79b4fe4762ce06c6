package redis

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

const daemonField = "daemon:"

//go:embed note.lua
var noteText string

var noteScript = scriptOf(noteText)

// sign notes that this process has learnt of all changes up to since, if it is time. It needs the turn.
// Whether it succeeds does not matter to a daemon.
func (s *Store) sign(since string) {
	if text := s.noted.Next(since, time.Now()); text != "" {
		_, _, _ = s.run(noteScript, []string{s.me, text}, 0)
	}
}

// signOff takes the note away. It waits for its turn.
func (s *Store) signOff() {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	if !s.noted.Written() || s.wire.Link == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.wire.Link.Conn.HDel(ctx, s.key, s.me)
}

// Behind implements counter.Admin. A daemon that was killed within the last day is among them: it cannot
// say that it has ended.
func (s *Store) Behind(ctx context.Context) ([]counter.Daemon, error) {
	return withTurn(ctx, s, func(l *redislink.Link) ([]counter.Daemon, error) {
		all, err := s.all()
		if all.daemons == nil {
			return nil, err
		}
		behind, forget := counter.Behind(all.daemons, all.changes, time.Now())
		for _, field := range forget {
			if err := l.Conn.HDel(ctx, s.key, field).Err(); err != nil {
				return behind, fmt.Errorf("redis: %s: %w", l.Addr, err)
			}
		}
		return behind, nil
	})
}
