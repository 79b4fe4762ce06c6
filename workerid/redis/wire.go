package redis

import (
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A wire carries the calls of a pool to the master. Only the goroutine that has the turn uses it.
type wire struct {
	*redislink.Wire
	keys    []string
	needed  int                                                 // replicas to wait for
	prepare func(text string, args []string) (string, []string) // what is sent for a call; nil = just that
}

// looked is the end of the error text for a missing pool.
func (w *wire) looked() string {
	return fmt.Sprintf("; it was looked for at %s as ns=%s", w.Where(), w.Target.Namespace)
}

func newWire(c Config, t redislink.Target) *wire {
	keys := script.Keys(t.Namespace, t.Kind == redislink.Cluster)
	return &wire{Wire: redislink.NewWire(t, keys[0], c.AllowEviction), keys: keys, needed: c.Replicas}
}

// run carries out a call. After any error except a refusal it closes the link, because the master may
// have moved.
func (w *wire) run(c script.Call) (reply any, have int, err error) {
	name, args := c.Call()
	text := script.Text(name)
	if w.prepare != nil {
		text, args = w.prepare(text, args)
	}
	reply, have, err = w.Link.Run(text, w.keys, args, w.needed)
	err = refusal(err)
	if err != nil && (!certain(err) || errors.Is(err, script.ErrNotMaster)) {
		w.Drop()
		w.Target.Doubt()
		err = fmt.Errorf("redis: %w", err)
	}
	return reply, have, err
}

// confirm counts the replicas that have what was written, if more are needed than run waited for.
func (w *wire) confirm(needed, have int) (int, error) {
	if w.needed >= needed {
		return have, nil
	}
	have, err := w.Link.Wait(needed)
	if err != nil {
		w.Drop()
	}
	return have, err
}

// refusal turns a script's error into a Refusal.
func refusal(err error) error {
	var answer goredis.Error
	if errors.As(err, &answer) {
		if r, ok := script.ParseRefusal(answer.Error()); ok {
			return r
		}
	}
	return err
}
