package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// NotPromised implements counter.Lossy. A definition or a raise is lost if a server becomes the master, or
// goes on as one, that does not have it. With replicas=K all K have it; but the K may be too small, and
// without it there may be replicas that are away. A master that restarts without a file has nothing.
func (s *Store) NotPromised(ctx context.Context) (string, error) {
	return withTurn(ctx, s, func(l *redislink.Link) (string, error) {
		on, _, err := s.read(replicasField)
		if err != nil {
			return "", err
		}
		var open []string
		if text := s.unknownReplicas(ctx, on); text != "" {
			open = append(open, text)
		}
		if !on.aof {
			open = append(open, fmt.Sprintf("Redis at %s keeps no append-only file: if it restarts, and no replica "+
				"takes over first, this is undone, on its replicas too. Give it appendonly yes, or stop the daemons "+
				"after such a restart and raise again", l.Addr))
		}
		return strings.Join(open, "; "), nil
	})
}

// unknownReplicas says which replicas may not have what was written before.
func (s *Store) unknownReplicas(ctx context.Context, on server) string {
	const away = "If a replica that is away now becomes the master before it is connected again, this is undone: " +
		"then stop the daemons, and raise again above every value that was issued"
	switch {
	case on.needed == 0 && on.replicas > 0:
		return fmt.Sprintf("this is on the replicas that are connected (%d); whether there are others is not "+
			"known. %s. `katsubushi name replicas %d`, and replicas=%d in the URL of all daemons, say that there are "+
			"none", on.replicas, away, on.replicas, on.replicas)
	case on.needed == 0 && s.replicas.named: // replicas=0: the operator says that there are none
		return ""
	case on.needed == 0:
		return fmt.Sprintf("no replica is connected, and whether there are any is not known. %s. "+
			"replicas=0 in the URL says that there are none", away)
	case s.wire.Target.Kind != redislink.Sentinels:
		return ""
	}
	known, err := s.wire.Target.Replicas(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("whether there are more replicas than %d is not known: %v. %s", on.needed, err, away)
	case known > on.needed:
		return fmt.Sprintf("the Sentinels know %d replicas, and %d must have this. %s. If there are no others, "+
			"SENTINEL RESET makes them forget; else `katsubushi name replicas %d`", known, on.needed, away, known)
	}
	return ""
}
