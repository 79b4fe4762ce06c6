package memcas

import (
	"maps"
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// Clone is a copy that goes on by itself, by another clock.
func (s *Server) Clone(now func() int64) *Server {
	return &Server{
		Now: now, TTL: s.TTL, state: s.state.clone(),
		conns: maps.Clone(s.conns), names: s.names, sessions: maps.Clone(s.sessions),
	}
}

// Clone is a copy that goes on by itself.
func (c Client) Clone() Client {
	c.versions = maps.Clone(c.versions)
	return c
}

// Session says when a session ends, on the clock of the Server; 0 if it has ended.
func (s *Server) Session(name string) int64 { return s.sessions[name] }

// Visit shows what is recorded. Versions are left out: only a Client with Stale compares them.
func (s State) Visit(v cas.Visitor) {
	v.Text(s.meta.text)
	for _, w := range slices.Sorted(maps.Keys(s.records)) {
		v.Number(int64(w))
		v.Text(s.records[w].text)
	}
	for _, w := range slices.Sorted(maps.Keys(s.presence)) {
		v.Number(-int64(w))
		v.Text(s.presence[w].text)
		v.Name(s.presence[w].session)
	}
}

// Visit shows what is recorded. What a Client knows of connections and sessions is asked for by name.
func (s *Server) Visit(v cas.Visitor) { s.state.Visit(v) }

// Writes counts the writes of meta and of records.
func (s *Server) Writes() (n int) {
	n = s.state.meta.version
	for _, e := range s.state.records {
		n += e.version
	}
	return n
}
