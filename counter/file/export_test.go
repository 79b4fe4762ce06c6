package file

import "time"

// Later makes it so much later for the next Changes.
func Later(s *Store, d time.Duration) *Store {
	s.d.changes.at = s.d.changes.at.Add(-d)
	return s
}
