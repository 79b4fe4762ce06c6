package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// ErrDiffers is returned if the URL's replicas=K is not that of the namespace. Nothing was granted.
var ErrDiffers = errors.New("another replicas=K is recorded")

// replicas is how many of them must have a grant.
type replicas struct {
	n     int
	named bool // the URL says so
}

// replicasField has the number that counts for all daemons: that of the operator who began the namespace, until
// SetReplicas.
const replicasField = "replicas"

// needed compares what is recorded with the URL. An operator's URL need not say it.
func (s *Store) needed(recorded string) (int, error) {
	n, err := strconv.Atoi(recorded)
	switch {
	case recorded == "":
		return s.replicas.n, nil
	case err != nil || n < 0 || n > maxReplicas:
		return 0, fmt.Errorf("redis: %s: replicas is %.20q: `katsubushi name replicas K` corrects it", s.key, recorded)
	case n == s.replicas.n || s.c.Operator && !s.replicas.named:
		return n, nil
	}
	return 0, fmt.Errorf("redis: %w: %s has replicas=%d, and the URL here replicas=%d: all daemons have the same "+
		"number in their URL; "+
		"`katsubushi name replicas %d` records this one for all of them", ErrDiffers, s.key, n, s.replicas.n,
		s.replicas.n)
}

// oneMaster refuses to write where two masters may serve at once and grants wait for no replica. began is
// the history in which the namespace began, empty if it has not.
func (s *Store) oneMaster(on server, began string) error {
	switch {
	case on.needed > 0 || s.wire.Target.Kind == redislink.Single:
		return nil
	case began == "":
		return fmt.Errorf("redis: %w in the URL: %s", ErrNoReplicas, whyReplicas)
	}
	return fmt.Errorf("redis: %w in %s: %s. `katsubushi name replicas K -counters URL`, with this URL, "+
		"records it; then restart all daemons with replicas=K in theirs", ErrNoReplicas, s.key, whyReplicas)
}

const whyReplicas = "K is the number of the master's replicas, 1 or more. " +
	"After a fail-over by Sentinels or in a cluster the old master serves for some seconds beside the new one, " +
	"and without K both would grant the same values"

// SetReplicas records how many replicas must have a grant, 0 to 100. From then on daemons with another
// number are granted nothing. It counts only when it is where a loss cannot take it; after an error repeat
// it. before is the number that was recorded.
func (s *Store) SetReplicas(ctx context.Context, n int) (before int, err error) {
	if n < 0 || n > maxReplicas {
		return 0, fmt.Errorf("replicas=%d: 0 to %d allowed", n, maxReplicas)
	}
	if err := s.oneMaster(server{needed: n}, "any"); err != nil {
		return 0, err
	}
	return withTurn(ctx, s, func(l *redislink.Link) (before int, err error) {
		on, values, err := s.readAny("history", replicasField)
		if err != nil {
			return 0, err
		}
		if values[0].text == "" {
			return 0, fmt.Errorf("%w: Redis at %s has no sequence in %s: the URL of the first `katsubushi name create` "+
				"says how many replicas", counter.ErrUnknown, s.wire.Where(), s.key)
		}
		before, _ = strconv.Atoi(values[1].text)
		on.needed = n
		if err := on.enoughToChange(); err != nil {
			return before, err
		}
		ok, have, err := s.write(on, replicasField, values[1].text, strconv.Itoa(n), false, max(on.replicas, n))
		if err == nil && !ok {
			err = errors.New("redis: another writer came between")
		}
		if err == nil {
			err = s.safe(l, on, have)
		}
		return before, err
	})
}
