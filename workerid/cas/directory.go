package cas

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Announce implements workerid.Directory.
func (s *Store) Announce(ctx context.Context, name, text string) error {
	if err := checkAnnouncement(name, text); err != nil {
		return err
	}
	s.mu.Lock()
	if s.announced == nil {
		s.announced = map[string]string{}
	}
	s.announced[name] = text
	s.mu.Unlock()
	_, err := take(ctx, s, func() (struct{}, func(), error) {
		return struct{}{}, nil, s.session.publish(context.WithoutCancel(ctx))
	})
	return err
}

// wanted are this daemon's announcements, "" for those that are to end.
func (s *Store) wanted() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.announced)
}

// Peers implements workerid.Directory.
func (s *Store) Peers(ctx context.Context) (map[string]string, error) {
	return take(ctx, s, func() (map[string]string, func(), error) {
		all, err := s.session.Driver.Peers(context.WithoutCancel(ctx), s.session.conn)
		if err == nil {
			s.session.missAnnouncements(all)
		}
		return all, nil, err
	})
}

// missAnnouncements forgets those that are not there as this daemon made them: an operator has deleted them or
// written over them, and Upkeep makes them again.
func (s *Session) missAnnouncements(all map[string]string) {
	maps.DeleteFunc(s.published, func(name string, p publication) bool { return all[name] != p.text })
}

func checkAnnouncement(name, text string) error {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_"
	if len(name) > 100 || strings.Trim(name, ".") == "" || strings.Trim(name, allowed) != "" {
		return fmt.Errorf("announcement %.120q: a name has 1 to 100 letters, digits, dots, hyphens and underscores, and "+
			"not only dots", name)
	}
	if len(text) > maxPeer {
		return fmt.Errorf("announcement %s: %d bytes, and at most %d allowed", name, len(text), maxPeer)
	}
	return nil
}

// publish makes, changes and ends the announcements that differ from what is wanted, or that another
// session has.
func (s *Session) publish(ctx context.Context) error {
	if s.Announced == nil {
		return nil
	}
	want := s.Announced()
	if len(want) == 0 {
		return nil
	}
	if _, err := s.commitChange(ctx, pool.Change{}); err != nil { // which session is it?
		return err
	}
	if s.published == nil {
		s.published = map[string]publication{}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		p := publication{want[name], s.session}
		if s.published[name] == p {
			continue
		}
		if err := s.Driver.Publish(ctx, s.conn, name, p.text); err != nil {
			return err
		}
		s.published[name] = p
	}
	return nil
}
