package file

import "time"

// Later makes it so much later for the next Changes.
func Later(s *Store, d time.Duration) {
	s.d.changes.at = s.d.changes.at.Add(-d)
	s.d.changes.read.at = s.d.changes.read.at.Add(-d)
}
