package file

import "time"

// Later makes it so much later for the next Changes.
func Later(s *Store, d time.Duration) *Store {
	s.changes.at = s.changes.at.Add(-d)
	return s
}
