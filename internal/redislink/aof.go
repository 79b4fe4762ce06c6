package redislink

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// ErrNoWaitAOF is returned for a server that cannot say whether a write is on its disk.
var ErrNoWaitAOF = errors.New("the server knows no WAITAOF and does not have appendfsync always")

// WaitAOF reports whether what was written over this connection is in the server's append-only file, on
// its disk. Servers before 7.2 have no WAITAOF: there the answer is known only with appendfsync always,
// when every answer has waited for it.
func (l *Link) WaitAOF() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	reply, err := l.Conn.Do(ctx, "WAITAOF", 1, 0, WaitTimeout.Milliseconds()).Slice()
	if err == nil {
		n, ok := int64(0), false
		if len(reply) > 0 {
			n, ok = reply[0].(int64)
		}
		return ok && n >= 1, nil
	}
	if !goredis.HasErrorPrefix(err, "unknown command") && !goredis.HasErrorPrefix(err, "NOPERM") {
		return false, err
	}
	policy, err := l.Conn.ConfigGet(ctx, "appendfsync").Result()
	var answer goredis.Error
	switch {
	case errors.As(err, &answer) || err == nil && policy["appendfsync"] != "always":
		return false, ErrNoWaitAOF
	case err != nil:
		return false, err
	}
	return true, nil
}
