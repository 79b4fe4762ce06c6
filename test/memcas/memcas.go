// Package memcas is a store with a compare-and-set in memory, as ZooKeeper and etcd have, for tests and
// simulations: connections that break, sessions that end, and states that are restored.
package memcas

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A Server is the store's side. Any goroutine may use it.
type Server struct {
	Now func() int64 // ms since any start: for sessions
	TTL int64        // ms: how long a session lasts after its daemon's last call

	mu       sync.Mutex
	state    State
	conns    map[string]bool
	names    int
	sessions map[string]int64 // by name: when it ends
}

// NewServer returns a Server without a pool.
func NewServer(now func() int64, ttl int64) *Server {
	s := &Server{Now: now, TTL: ttl, conns: map[string]bool{}, sessions: map[string]int64{}}
	s.state = State{records: map[uint64]entry{}, presence: map[uint64]presence{}, peers: map[string]presence{}}
	return s
}

// A State is what is recorded at a time.
type State struct {
	meta     entry
	records  map[uint64]entry
	presence map[uint64]presence
	peers    map[string]presence
}

type entry struct {
	text    string
	version int // of this record, as ZooKeeper counts. A restore brings old ones back
}

type presence struct{ text, session string }

// Init makes a pool.
func (s *Server) Init(m pool.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.meta = entry{m.String(), 1}
	for w := m.Min; w <= m.Max; w++ {
		s.state.records[w] = entry{pool.Record{}.String(), 1}
	}
}

// Present is the text of a worker id's presence, or "".
func (s *Server) Present(worker uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.presence[worker].text
}

// Meta is the present meta record, and Record that of a worker id.
func (s *Server) Meta() pool.Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := pool.ParseMeta(s.state.meta.text)
	if err != nil {
		panic(err)
	}
	return m
}

// Record is the present text of a worker id's record.
func (s *Server) Record(worker uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.records[worker].text
}

// SetMeta writes meta, as an operator does, and SetRecord a record.
func (s *Server) SetMeta(m pool.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.meta = entry{m.String(), s.state.meta.version + 1}
}

// SetMetaText writes any text as meta.
func (s *Server) SetMetaText(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.meta = entry{text, s.state.meta.version + 1}
}

// SetRecord writes a record, as an operator does.
func (s *Server) SetRecord(worker uint64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.records[worker] = entry{text, s.state.records[worker].version + 1}
}

// Save copies the present state.
func (s *Server) Save() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// View is what a State has of meta and the records.
func (s State) View() pool.View {
	v := pool.View{Meta: s.meta.text, Records: map[uint64]string{}, Present: map[uint64]string{}}
	for w, e := range s.records {
		if e.text != "" {
			v.Records[w] = e.text
		}
	}
	for w, p := range s.presence {
		v.Present[w] = p.text
	}
	return v
}

func (s State) clone() State {
	return State{s.meta, maps.Clone(s.records), maps.Clone(s.presence), maps.Clone(s.peers)}
}

// Restore brings an earlier state back. Every connection breaks.
func (s *Server) Restore(to State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = to.clone()
	s.conns = map[string]bool{}
	revive := func(p presence) { s.sessions[p.session] = max(s.sessions[p.session], s.Now()+s.TTL) }
	for _, p := range s.state.presence { // sessions are in a backup, too
		revive(p)
	}
	for _, p := range s.state.peers {
		revive(p)
	}
}

// Break breaks all connections.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = map[string]bool{}
}

// Expire ends all sessions, as a long outage does.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Dial makes a connection.
func (s *Server) Dial() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	name := "c" + strconv.Itoa(s.names)
	s.conns[name] = true
	return name
}

// Alive says whether a connection has not broken.
func (s *Server) Alive(conn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[conn]
}

// Hangup ends a connection, and with it a session.
func (s *Server) Hangup(conn, session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	delete(s.sessions, session)
}

// A Client is what a daemon's driver remembers.
type Client struct {
	Conn, Session string
	// Stale compares the versions that were read last, over whichever connection, instead of texts.
	// Only mutants do that
	Stale    bool
	versions map[uint64]int
	meta     int
}

// enter checks the connection and keeps the session alive.
func (s *Server) enter(c *Client, conn string) error {
	for name, ends := range s.sessions {
		if ends < s.Now() {
			delete(s.sessions, name)
		}
	}
	gone := func(p presence) bool {
		_, lives := s.sessions[p.session]
		return !lives
	}
	maps.DeleteFunc(s.state.presence, func(_ uint64, p presence) bool { return gone(p) })
	maps.DeleteFunc(s.state.peers, func(_ string, p presence) bool { return gone(p) })
	if !s.conns[conn] {
		return fmt.Errorf("%w: %s", cas.ErrConnection, conn)
	}
	if _, lives := s.sessions[c.Session]; !lives {
		s.names++
		c.Session = "s" + strconv.Itoa(s.names)
	}
	s.sessions[c.Session] = s.Now() + s.TTL
	return nil
}

// Load is Driver.Load.
func (s *Server) Load(c *Client, conn string) (pool.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(c, conn); err != nil {
		return pool.View{}, err
	}
	c.meta = s.state.meta.version
	for w, e := range s.state.records {
		c.learn(w, e)
	}
	return s.state.View(), nil
}

func (c *Client) learn(w uint64, e entry) {
	if c.versions == nil {
		c.versions = map[uint64]int{}
	}
	c.versions[w] = e.version
}

// Commit is Driver.Commit.
func (s *Server) Commit(c *Client, conn string, ch pool.Change) (cas.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(c, conn); err != nil {
		return cas.Answer{}, err
	}
	a := cas.Answer{Done: true, Session: c.Session}
	if ch.Fresh && s.state.meta.text != "" {
		a.Done = false
	}
	if ch.IfMeta != "" && s.state.meta.text != ch.IfMeta && !(c.Stale && c.meta == s.state.meta.version) {
		a.Done = false
	}
	for w, text := range ch.If {
		if e := s.state.records[w]; e.text != text && !(c.Stale && c.versions[w] == e.version) {
			a.Done = false
		}
	}
	if !a.Done {
		a.View = pool.View{Meta: s.state.meta.text, Records: map[uint64]string{}}
		c.meta = s.state.meta.version
		for w := range ch.If {
			if text := s.state.records[w].text; text != "" {
				a.View.Records[w] = text
			}
			c.learn(w, s.state.records[w])
		}
		return a, nil
	}
	if ch.SetMeta != "" {
		s.state.meta = entry{ch.SetMeta, s.state.meta.version + 1}
		c.meta = s.state.meta.version
	}
	for w, text := range ch.Set {
		s.state.records[w] = entry{cmp.Or(text, cas.Blank), s.state.records[w].version + 1}
		c.learn(w, s.state.records[w])
	}
	return a, nil
}

// Announce is Driver.Announce.
func (s *Server) Announce(c *Client, conn string, worker uint64, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(c, conn); err != nil {
		return err
	}
	note(s.state.presence, worker, text, c)
	return nil
}

func note[K comparable](in map[K]presence, name K, text string, c *Client) {
	if text != "" {
		in[name] = presence{text, c.Session}
	} else if in[name].session == c.Session {
		delete(in, name)
	}
}

// Publish is Driver.Publish.
func (s *Server) Publish(c *Client, conn, name, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(c, conn); err != nil {
		return err
	}
	note(s.state.peers, name, text, c)
	return nil
}

// Peers is Driver.Peers.
func (s *Server) Peers(c *Client, conn string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(c, conn); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for name, p := range s.state.peers {
		all[name] = p.text
	}
	return all, nil
}

// A Driver is a daemon's side of a Server.
type Driver struct {
	Server *Server
	Client Client
	// Ask carries a request to the Server, at once or later, or not, and returns the answer; what names it. nil: at once
	Ask func(ctx context.Context, what string, request func() (any, error)) (any, error)
}

var _ cas.Driver = (*Driver)(nil)

func ask[T any](ctx context.Context, d *Driver, what string, request func() (T, error)) (T, error) {
	if d.Ask == nil {
		return request()
	}
	v, err := d.Ask(ctx, what, func() (any, error) { return request() })
	answer, _ := v.(T)
	return answer, err
}

// Connect implements cas.Driver.
func (d *Driver) Connect(ctx context.Context) (string, error) {
	return ask(ctx, d, "connect", func() (string, error) {
		if !d.Server.Alive(d.Client.Conn) {
			d.Client.Conn = d.Server.Dial()
		}
		return d.Client.Conn, nil
	})
}

// Load implements cas.Driver.
func (d *Driver) Load(ctx context.Context, conn string) (pool.View, error) {
	return ask(ctx, d, "read", func() (pool.View, error) { return d.Server.Load(&d.Client, conn) })
}

// Commit implements cas.Driver.
func (d *Driver) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	what := "write"
	if c.SetMeta != "" {
		what = "write meta"
	} else if len(c.If) > 1 {
		what = fmt.Sprintf("write %d records", len(c.If))
	}
	return ask(ctx, d, what, func() (cas.Answer, error) { return d.Server.Commit(&d.Client, conn, c) })
}

// Announce implements cas.Driver.
func (d *Driver) Announce(ctx context.Context, conn string, worker uint64, text string) error {
	what := "be present"
	if text == "" {
		what = "be absent"
	}
	_, err := ask(ctx, d, what, func() (any, error) { return nil, d.Server.Announce(&d.Client, conn, worker, text) })
	return err
}

// Publish implements cas.Driver.
func (d *Driver) Publish(ctx context.Context, conn, name, text string) error {
	_, err := ask(ctx, d, "publish", func() (any, error) { return nil, d.Server.Publish(&d.Client, conn, name, text) })
	return err
}

// Peers implements cas.Driver.
func (d *Driver) Peers(ctx context.Context, conn string) (map[string]string, error) {
	return ask(ctx, d, "list", func() (map[string]string, error) { return d.Server.Peers(&d.Client, conn) })
}

// Figures implements cas.Driver.
func (d *Driver) Figures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "lease_memcas_servers", Metric: "lease_memcas_servers", Value: 1, Help: "Servers of the store.",
	})
}

// Close implements cas.Driver.
func (d *Driver) Close() error {
	_, err := ask(context.Background(), d, "close", func() (any, error) {
		d.Server.Hangup(d.Client.Conn, d.Client.Session)
		return nil, nil
	})
	return err
}
