package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// confirmTimeout is how long Confirm waits. A daemon that runs learns of a change within a second, and
// confirms it at once.
const confirmTimeout = 4 * time.Second

// Confirm waits until all daemons have learnt of what Raise, Adopt or Retire has changed, for 4 s at most,
// and returns a line for each that has not said so. Until it does, it may issue what it holds. A store that
// does not know its daemons has no lines: AfterRaise says so.
func Confirm(ctx context.Context, s counter.Admin) (late []string) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	behind, err := s.Behind(ctx)
	for err == nil && len(behind) > 0 && ctx.Err() == nil {
		select {
		case <-time.After(confirmTimeout / 80):
			if now, failed := s.Behind(ctx); failed == nil {
				behind = now
			}
		case <-ctx.Done():
		}
	}
	if err != nil && !errors.Is(err, counter.ErrNoRoll) {
		late = append(late, fmt.Sprintf("which daemons have dropped theirs is not known: %v", err))
	}
	for _, d := range behind {
		const text = "daemon %s has not confirmed it, and was last heard of %v ago: make sure that it has ended"
		late = append(late, fmt.Sprintf(text, d.Name, d.Silent.Round(time.Second)))
	}
	return late
}
