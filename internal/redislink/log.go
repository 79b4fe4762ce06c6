package redislink

import (
	"context"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"
)

// LogTo sends the client library's log to l, for the whole process. By default the library writes to
// stderr and blocks until that is done.
func LogTo(l *slog.Logger) { goredis.SetLogger(libraryLog{l}) }

type libraryLog struct{ log *slog.Logger }

func (l libraryLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.WarnContext(ctx, "redis: "+fmt.Sprintf(format, v...))
}
