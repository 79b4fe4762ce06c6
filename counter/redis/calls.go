package redis

import (
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

//go:embed read.lua
var readScript string

//go:embed write.lua
var writeScript string

// A server is what a server said of itself in an answer.
type server struct {
	line.Moment
	replicas int    // connected
	needed   int    // of them, that must have a grant
	aof      bool   // it writes an append-only file
	recorded string // needed, as it is recorded; empty = it is not
}

// run runs a script. After an error that is not a script's own, the link is dropped: the master may have
// moved.
func (s *Store) run(script string, args []string, replicas int) (reply any, have int, err error) {
	if s.prepare != nil {
		script, args = s.prepare(script, args)
	}
	reply, have, err = s.wire.Link.Run(script, []string{s.key}, args, replicas)
	if err == nil {
		return reply, have, nil
	}
	var answer goredis.Error
	if errors.As(err, &answer) {
		if words := strings.Fields(answer.Error()); len(words) == 3 && words[0] == "KATSU_REPLICAS" {
			return nil, 0, fmt.Errorf("redis: %w: %s are, and replicas=%s", ErrReplicas, words[1], words[2])
		} else if len(words) == 2 && words[0] == "KATSU_NOTMASTER" {
			err = fmt.Errorf("%w: its role is %s", ErrNotMaster, words[1])
		}
	}
	addr := s.wire.Addr()
	s.wire.Drop()
	s.wire.Target.Doubt()
	return nil, 0, fmt.Errorf("redis: %s: %w", addr, err)
}

// A value is what a field of the hash holds. One that is there may be empty: another program has written it.
type value struct {
	text  string // empty if it is not there
	there bool
}

// read reads these fields of the hash, or all of them, names and values alternating. It returns ErrDiffers if
// this process needs other replicas than the namespace.
func (s *Store) read(fields ...string) (server, []value, error) {
	on, values, err := s.readAny(fields...)
	if err == nil {
		on.needed, err = s.needed(on.recorded)
	}
	if err == nil && on.replicas < on.needed {
		s.wire.Suspect()
	}
	return on, values, err
}

// enough returns ErrUnconfirmed if a write would not reach as many replicas as must have it.
func (on server) enough() error {
	if on.replicas >= on.needed {
		return nil
	}
	return fmt.Errorf("redis: %w: %d of %d are connected", ErrUnconfirmed, on.replicas, on.needed)
}

// enoughToChange is enough, for what operators do.
func (on server) enoughToChange() error {
	if err := on.enough(); err != nil {
		return fmt.Errorf("%w, and nothing was changed: bring the missing ones back, or record with "+
			"`katsubushi name replicas K` that there are fewer", err)
	}
	return nil
}

// readAny is read, whatever replicas are needed.
func (s *Store) readAny(fields ...string) (server, []value, error) {
	reply, _, err := s.run(readScript, fields, 0)
	if err != nil {
		return server{}, nil, err
	}
	bad := fmt.Errorf("redis: %s: a script answered %.200q", s.wire.Addr(), fmt.Sprint(reply))
	all, ok := reply.([]any)
	if !ok || len(all) != 6 {
		return server{}, nil, bad
	}
	text, _ := all[0].(string)
	now, err := strconv.ParseInt(text, 10, 64)
	history, ok1 := all[1].(string)
	replicas, ok2 := all[2].(int64)
	aof, ok3 := all[3].(int64)
	list, ok4 := all[4].([]any)
	recorded, ok5 := all[5].(string)
	if err != nil || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || len(fields) > 0 && len(list) != len(fields) {
		return server{}, nil, bad
	}
	values := make([]value, len(list))
	for i, v := range list {
		values[i].text, values[i].there = v.(string)
		if v != nil && !values[i].there {
			return server{}, nil, bad
		}
	}
	return server{Moment: line.Moment{Now: now, History: history}, replicas: int(replicas), aof: aof == 1,
		recorded: recorded}, values, nil
}

// skewed compares the server's clock, read between two moments, with this host's.
func skewed(before, now, after int64) error {
	skew := line.MaxSkew.Milliseconds()
	if ahead := now - after; ahead > skew {
		return fmt.Errorf("%w: Redis's is %v ahead", ErrSkew, time.Duration(ahead)*time.Millisecond)
	}
	if behind := before - now; behind > skew {
		return fmt.Errorf("%w: Redis's is %v behind", ErrSkew, time.Duration(behind)*time.Millisecond)
	}
	return nil
}

// write replaces the text of a field. ok is false, and nothing was written, if that or the server is
// another one by now. have is how many replicas have it, of those that were asked for.
func (s *Store) write(on server, field, old, text string, announce bool, replicas int) (ok bool, have int, err error) {
	changes := ""
	if announce {
		changes = rand.Text()
	}
	reply, have, err := s.run(writeScript, []string{on.History, strconv.Itoa(on.needed), field, old, text, changes},
		replicas)
	if err != nil {
		return false, 0, err
	}
	n, isNumber := reply.(int64)
	if !isNumber {
		return false, 0, fmt.Errorf("redis: %s: a script answered %.200q", s.wire.Addr(), fmt.Sprint(reply))
	}
	return n == 1, have, nil
}

// safe reports whether what this connection wrote last is where a loss cannot take it: on all replicas, of
// which have have it, or if there are none in the append-only file.
func (s *Store) safe(l *redislink.Link, on server, have int) error {
	if needed := max(on.replicas, on.needed); needed > 0 {
		if have < needed {
			return fmt.Errorf("redis: %w: %w: %d of %d have it", line.ErrNotSafe, ErrUnconfirmed, have, needed)
		}
		return nil
	}
	if !on.aof {
		return fmt.Errorf("redis: %s: %w: %w: give it appendonly yes, or a replica", l.Addr, line.ErrNotSafe, errNoDisk)
	}
	synced, err := l.WaitAOF()
	switch {
	case errors.Is(err, redislink.ErrNoWaitAOF):
		return fmt.Errorf("redis: %s: %w: before Redis 7.2 that can be told only with appendfsync always, or a replica (%w)",
			l.Addr, line.ErrNotSafe, redislink.ErrNoWaitAOF)
	case err != nil:
		s.wire.Drop()
		return fmt.Errorf("redis: %s: %w", l.Addr, err)
	case !synced:
		return fmt.Errorf("redis: %s: %w: its disk does not keep up", l.Addr, line.ErrNotSafe)
	}
	return nil
}
