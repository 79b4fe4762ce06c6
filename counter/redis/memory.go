package redis

import (
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
)

// A memory is what this process knows of a sequence, whatever Redis says.
type memory struct {
	granted uint64 // the largest value that it was granted and has not given back
	created int64  // of the record that it has used, which tells it from one that was made again; 0 = none yet
	missing bool   // there was no record when it asked, and there may have been one before
}

// remembered returns the memory of a sequence; nil = it is not known. The caller holds mu.
func (s *Store) remembered(name string, add bool) *memory {
	m := s.seen[name]
	if m == nil && add {
		m = &memory{}
		s.seen[name] = m
	}
	return m
}

// known: this process has used a record.
func (m *memory) known() bool { return m.created != 0 || m.granted > 0 }

// missing is the error for a record that is not there.
func (s *Store) missing(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.remembered(name, false); m != nil && m.known() {
		return fmt.Errorf("%w: Redis at %s has lost sequence %s: `katsubushi generator create` it as it was, and raise it "+
			"above %d and all that others issued",
			counter.ErrForeign, s.wire.Where(), name, m.granted)
	}
	return fmt.Errorf("%w: Redis at %s has no sequence %s as %s", counter.ErrUnknown, s.wire.Where(), name, s.key)
}

// notThere is the error of a daemon that finds no record and must not make it. When an operator has made
// one, the daemon does not go on from it before it is raised, as another one may come first.
func (s *Store) notThere(d counter.Definition, forgotten bool) error {
	s.mu.Lock()
	m := s.remembered(d.Name, true)
	known := m.known()
	m.missing = true
	s.mu.Unlock()
	if known {
		return s.missing(d.Name)
	}
	why := "no sequence was ever recorded there, or all were lost"
	if forgotten {
		why = "it may have been lost, as Redis has restarted or failed over since the first one was recorded there"
	}
	return fmt.Errorf("%w: Redis at %s has no sequence %s as %s; %s: `katsubushi generator create` makes it; if there "+
		"was one, "+
		"raise it above every value that was issued before a daemon serves it", counter.ErrForeign, s.wire.Where(), d.Name,
		s.key, why)
}

// setBack says why a record must not be gone on from: it knows less than this process, or was made again.
// Otherwise it is the one to remember.
func (s *Store) setBack(r *line.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.remembered(r.Name, true)
	again := (m.missing || m.created != 0 && r.Created != m.created) && r.Floor <= m.granted
	switch raise := min(m.granted+1, r.Max); {
	case again:
		return fmt.Errorf("%w: the record of sequence %s was made when Redis may have lost another one: `katsubushi "+
			"generator raise %s %d`, or more if others issued more",
			counter.ErrForeign, r.Name, r.Name, raise)
	case m.granted > 0 && r.Next <= m.granted:
		return fmt.Errorf("%w: Redis says that %d of sequence %s is free, and this process was granted up to %d: "+
			"`katsubushi generator raise %s %d`, or more if others issued more", counter.ErrForeign, r.Next, r.Name, m.granted,
			r.Name, raise)
	}
	m.missing = false
	if r.Safe { // or else a loss may take it before anybody was granted anything
		m.created = r.Created
	}
	return nil
}

func (s *Store) note(name string, granted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remembered(name, true).granted = granted
}

// know remembers the records that are there, unless others are known.
func (s *Store) know(records []line.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if m := s.remembered(r.Name, true); m.created == 0 && r.Safe {
			m.created = r.Created
		}
	}
}
