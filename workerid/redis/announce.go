package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// Redis has no sessions, so an announcement is a key that expires unless its daemon writes it again. A fail-over that
// loses it is mended in the same way. A sorted set lists the names, by when they expire: to look for the keys
// themselves, Redis would have to go through all that it has.

const (
	announcementLife  = 30 * time.Second
	announcementAgain = announcementLife / 3
	forgotten         = time.Hour // after its expiry a name leaves the sorted set; clocks may be that wrong
	forgottenAtOnce   = 100       // names
	maxAnnounced      = 2048      // texts that Peers reads
	maxNames          = 16 << 10  // names that it looks at
	namesAtOnce       = 1 << 10   // of these, so that a lease need not wait long for its turn
	maxAnnouncement   = 8 << 10   // bytes of a text; longer ones are cut off, and so cannot be read
	maxAnnouncedName  = 100       // bytes
	refusedPause      = 10 * time.Minute
)

var _ workerid.Directory = (*Store)(nil)

// AnnounceAgain says how often to call Announce with the same text.
func (s *Store) AnnounceAgain() time.Duration { return announcementAgain }

// Announce implements workerid.Directory. The announcement ends by itself unless it is made again, see AnnounceAgain.
func (s *Store) Announce(ctx context.Context, name, text string) error {
	if name == "" || len(name) > maxAnnouncedName || len(text) > maxAnnouncement {
		return fmt.Errorf("redis: announcement %.120q of %d bytes: the name has 1 to %d bytes, the text at most %d",
			name, len(text), maxAnnouncedName, maxAnnouncement)
	}
	_, err := onLink(ctx, s, func(ctx context.Context, c *goredis.Conn) (none struct{}, err error) {
		now, life := s.c.Now(), announcementLife
		if text == "" {
			life = time.Millisecond
		}
		pipe := c.Pipeline()
		pipe.Set(ctx, s.peerKey(name), text, life)
		if text == "" {
			pipe.ZRem(ctx, s.peers, name)
		} else {
			pipe.ZAdd(ctx, s.peers, goredis.Z{Score: float64(now + life.Milliseconds()), Member: name})
		}
		old := pipe.ZRangeByScore(ctx, s.peers, &goredis.ZRangeBy{Min: "-inf",
			Max: strconv.FormatInt(now-forgotten.Milliseconds(), 10), Count: forgottenAtOnce})
		if _, err = pipe.Exec(ctx); err != nil || len(old.Val()) == 0 {
			return none, err
		}
		gone := make([]any, len(old.Val()))
		for i, name := range old.Val() {
			gone[i] = name
		}
		return none, c.ZRem(ctx, s.peers, gone...).Err()
	})
	return err
}

// Peers implements workerid.Directory.
func (s *Store) Peers(ctx context.Context) (map[string]string, error) {
	all, _, err := s.Listing(ctx, nil)
	return all, err
}

// Listing is Peers, and counts the names that it left out: at most maxAnnounced texts are read, of known names first,
// and of the others in random order, so that nobody hides behind names that others have written. Names without a text,
// which have expired, or are nobody's, count only where there are so many texts, or maxNames names.
func (s *Store) Listing(ctx context.Context, known []string) (all map[string]string, left int, err error) {
	var others []string
	for more := true; more; {
		names, err := onLink(ctx, s, func(ctx context.Context, c *goredis.Conn) ([]string, error) {
			// the latest stand at the end
			return c.ZRange(ctx, s.peers, int64(-len(others)-namesAtOnce), int64(-len(others)-1)).Result()
		})
		if err != nil {
			return nil, 0, err
		}
		others = append(others, names...)
		if more = len(names) == namesAtOnce; more && len(others) >= maxNames {
			more, left = false, 1
		}
	}
	is := map[string]bool{}
	for _, name := range known {
		is[name] = true
	}
	others = slices.DeleteFunc(others, func(name string) bool { return is[name] })
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	all = map[string]string{}
	for rest := append(slices.Clone(known), others...); len(rest) > 0; {
		n := min(len(rest), namesAtOnce, maxAnnounced-len(all))
		if n == 0 {
			return all, max(left, len(rest)), nil
		}
		if err := s.texts(ctx, rest[:n], all); err != nil {
			return nil, 0, err
		}
		rest = rest[n:]
	}
	return all, left, nil
}

// texts adds the texts of announcements to all.
func (s *Store) texts(ctx context.Context, names []string, all map[string]string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := onLink(ctx, s, func(ctx context.Context, c *goredis.Conn) (none struct{}, err error) {
		pipe, texts := c.Pipeline(), map[string]*goredis.StringCmd{}
		for _, name := range names {
			if len(name) <= maxAnnouncedName {
				texts[name] = pipe.GetRange(ctx, s.peerKey(name), 0, maxAnnouncement)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil && !goredis.HasErrorPrefix(err, "WRONGTYPE") { // of a foreign key
			return none, err
		}
		for name, text := range texts {
			if text.Val() != "" {
				all[name] = text.Val()
			}
		}
		return none, nil
	})
	return err
}

func (s *Store) peerKey(name string) string { return s.peers + ":" + name }

// onLink calls f with the connection to the master, and closes that if the master may be another one.
func onLink[T any](ctx context.Context, s *Store, f func(context.Context, *goredis.Conn) (T, error)) (T, error) {
	return redislink.Take(ctx, s.wire.Wire, func(l *redislink.Link) (T, func(), error) {
		ctx, cancel := context.WithTimeout(context.Background(), redislink.Patience)
		defer cancel()
		v, err := f(ctx, l.Conn)
		var answer goredis.Error
		switch {
		case err == nil:
			return v, nil, nil
		case !errors.As(err, &answer), goredis.HasErrorPrefix(err, "READONLY"), goredis.HasErrorPrefix(err, "MOVED"):
			s.wire.Drop()
			s.wire.Target.Doubt()
		case goredis.HasErrorPrefix(err, "NOPERM"):
			err = &notPermitted{refused{answer}}
		default:
			err = &refused{answer}
		}
		return v, nil, fmt.Errorf("redis: %w", err)
	})
}

// A refused is Redis's refusal to run a command.
type refused struct{ answer error }

func (r *refused) Error() string { return strings.TrimSpace(r.answer.Error()) }

func (r *refused) Unwrap() error { return r.answer }

// Reason says why, without the name of the user: any user may read it.
func (r *refused) Reason() string {
	code, _, _ := strings.Cut(r.Error(), " ")
	switch command := commandOf.FindString(r.Error()); {
	case code == "WRONGTYPE":
		return "WRONGTYPE, another program has written its key"
	case strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return "the log says why"
	case code != "NOPERM":
		return code
	case command != "":
		return "NOPERM, the user needs the right to run " + command
	}
	return "NOPERM, the user needs the right to use the keys of its namespace"
}

// commandOf finds the command in what Redis says about a right that is missing.
var commandOf = regexp.MustCompile(`'[a-z|]{1,30}'`)

// A notPermitted is the refusal for this user. An operator must change the user's ACL.
type notPermitted struct{ refused }

// RetryAfter says when to try again.
func (n *notPermitted) RetryAfter() time.Duration { return refusedPause }

// peersKey returns the key of the sorted set of names. Those of the texts begin with it.
func peersKey(t redislink.Target) string {
	return strings.TrimSuffix(script.Keys(t.Namespace, t.Kind == redislink.Cluster)[0], "ids") + "peers"
}
