package etcd_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScripts plays scripts on real servers. Beside the calls of countertest.Stage there are those of fleet.
func TestScripts(t *testing.T) {
	for _, name := range []string{"elections", "servers"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script.Run(t, "testdata/"+name+".script", func(t *testing.T, play func(script.Do)) {
				f := &fleet{Stage: countertest.NewStage(t), t: t, servers: map[string]*etcdtest.Member{},
					proxies: map[string]*redistest.Proxy{}, members: map[string]*member{}, watches: map[*etcd.Store]*watch{},
					since: map[*etcd.Store]string{}, password: filepath.Join(t.TempDir(), "password")}
				maps.Copy(f.Calls, f.calls())
				maps.Copy(f.Calls, f.ofMembers())
				play(f.do)
			})
		})
	}
}

// A fleet is what a script has begun.
type fleet struct {
	*countertest.Stage
	t        *testing.T
	servers  map[string]*etcdtest.Member
	proxies  map[string]*redistest.Proxy
	members  map[string]*member
	watches  map[*etcd.Store]*watch
	since    map[*etcd.Store]string // of texts
	now      leader.State           // that a commit read last
	password string
}

// A watch is what a store says of the groups.
type watch struct {
	saw   chan map[int]leader.Leader
	ended chan error
}

// ids are those of clusters and members.
var ids = regexp.MustCompile(`\b[0-9a-f]{12,20}\b`)

func (f *fleet) do(words []string) string {
	said := countertest.StoodStill(f.Do(words))
	for name, s := range f.servers {
		said = strings.ReplaceAll(said, s.Addr(), name)
	}
	return ids.ReplaceAllString(said, "ID")
}

func (f *fleet) calls() script.Calls {
	const root = "/katsubushi/shop/"
	return script.Calls{
		"servers": f.servers, "proxies": f.proxies, "members": f.members,
		// server m [WORDS]: an etcd; proxy p m: one in front of it
		"server": func(name string, args ...string) { f.servers[name] = etcdtest.Start(f.t, args...) },
		"proxy":  func(name string, of *etcdtest.Member) { f.proxies[name] = redistest.NewProxy(f.t, of.Addr()) },
		"refuses": func(p *redistest.Proxy, on bool) {
			p.Refuse(on)
			p.Cut()
		},
		"to": func(p *redistest.Proxy, s *etcdtest.Member) {
			p.Retarget(s.Addr())
			p.Cut()
		},
		"kills": (*etcdtest.Member).Kill, "launches": (*etcdtest.Member).Launch,
		// m restores n: from a snapshot of n, as another cluster
		"restores": f.restore,
		// m fills, m compacts: takes room, and gives it back, with all that was written before
		"fills": func(s *etcdtest.Member) string {
			_, err := s.Client().Put(bg, "big", strings.Repeat("x", 50_000))
			return fmt.Sprint(err)
		},
		"compacts": f.compact,
		"etcdctl":  f.etcdctl,
		// m puts KEY TEXT, m gets KEY, m copies KEY TO: below root
		"puts":   func(s *etcdtest.Member, key string, words ...string) { s.Put(root+key, strings.Join(words, " ")) },
		"gets":   func(s *etcdtest.Member, key string) string { return s.Get(root + key) },
		"copies": func(s *etcdtest.Member, key, to string) { s.Put(root+to, s.Get(root+key)) },
		// password hush: what is in the file of passwords
		"password": func(text string) error { return os.WriteFile(f.password, []byte(text+"\n"), 0o600) },
		// open a m [as kb] [in shop] [for 100ms]: a store
		"open": func(name, at string, words ...string) { f.Stores[name] = f.open(at, words...) },
		// a commit [if 0=now-1 x=0] [lead 0:x:1:HEIR ...] [put x] [drop x]: groups are numbers, daemons are not
		"commit": f.commit,
		// a watches; a saw is what it saw next, and a watched how it ended
		"watches": f.watch, "saw": f.saw, "watched": f.watched,
		// a texts users; a edit users ann 1 [while 5]: the new text, "-" for none, "no" for an error; and the one that
		// another daemon writes
		"texts": f.texts, "edit": f.edit,
	}
}

func (f *fleet) restore(s, from *etcdtest.Member) {
	file := filepath.Join(f.t.TempDir(), "snapshot")
	from.Snapshot(file)
	s.Kill()
	etcdtest.Replace([]*etcdtest.Member{s}, file)
	s.Launch()
}

func (f *fleet) compact(s *etcdtest.Member) error {
	got, err := s.Client().Get(bg, "any")
	if err == nil {
		_, err = s.Client().Compact(bg, got.Header.Revision)
	}
	return err
}

func (f *fleet) etcdctl(s *etcdtest.Member, words ...string) string {
	said, err := s.ControlOnce(words...)
	if countertest.StoodStill(said); err != nil {
		f.t.Fatalf("etcdctl %v: %v: %s", words, err, said)
	}
	return said
}

// open opens a Store of a server, or of what stands before it.
func (f *fleet) open(at string, words ...string) *etcd.Store {
	if s := f.servers[at]; s != nil {
		at = s.Addr()
	} else {
		at = f.proxies[at].Addr()
	}
	c := etcd.Config{Timeout: patient}
	ns := "shop"
	for i := 0; i+1 < len(words); i += 2 {
		switch word := words[i+1]; words[i] {
		case "as":
			at, c.PasswordFile = word+"@"+at, f.password
		case "in":
			ns += "/" + word
		case "for":
			c.Timeout, _ = time.ParseDuration(word)
		}
	}
	c.URL = "etcd://" + at + "?ns=" + ns
	s, err := etcd.Open(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close() })
	return s
}

func (f *fleet) watch(s *etcd.Store) {
	w := &watch{make(chan map[int]leader.Leader, 1000), make(chan error, 1)}
	f.watches[s] = w
	go func() { w.ended <- s.Watch(f.t.Context(), func(saw map[int]leader.Leader) { w.saw <- saw }) }()
}

func (f *fleet) saw(s *etcd.Store) string {
	select {
	case saw := <-f.watches[s].saw:
		return f.leaders(saw, "other keys")
	default:
		return ""
	}
}

func (f *fleet) watched(s *etcd.Store) string {
	select {
	case err := <-f.watches[s].ended:
		return fmt.Sprint("ended with an error: ", err != nil && !errors.Is(err, context.Canceled))
	default:
		return ""
	}
}

func (f *fleet) texts(s *etcd.Store, of string) string {
	now, texts, err := s.Texts(bg, of, f.since[s])
	if now == f.since[s] && texts == nil {
		return countertest.Said("unchanged", err)
	}
	f.since[s] = now
	return countertest.Said(texts, err)
}

func (f *fleet) edit(s *etcd.Store, of, name, text string, others ...string) string {
	var was []string
	err := s.Edit(bg, of, name, func(old string) (string, error) {
		if was = append(was, old); text == "no" {
			return "x", errors.New("no")
		}
		if len(others) > 0 && len(was) == 1 {
			f.edit(s, of, name, others[1])
		}
		return strings.Trim(text, "-"), nil
	})
	return countertest.Said(fmt.Sprintf("was %q", was), err)
}

// commit makes a Change, and says what it read.
func (f *fleet) commit(s *etcd.Store, words ...string) string {
	c, kind := leader.Change{Leaders: map[int]int64{}, Nodes: map[string]int64{}, Lead: map[int]leader.Leader{}}, ""
	for _, word := range words {
		if slices.Contains([]string{"if", "lead", "put", "drop"}, word) {
			kind = word
			continue
		}
		id, value, _ := strings.Cut(word, "=")
		g, err := strconv.Atoi(strings.SplitN(id, ":", 2)[0])
		switch kind {
		case "put":
			c.Put = &leader.Node{ID: word, Redis: word + ":11212"}
		case "drop":
			c.Drop = append(c.Drop, word)
		case "lead":
			l := append(strings.Split(word, ":"), "")
			n, _ := strconv.ParseUint(l[2], 10, 64)
			c.Lead[g] = leader.Leader{Node: leader.Node{ID: l[1], Redis: l[1]}, Number: n, Heir: l[3]}
		default:
			if err == nil {
				c.Leaders[g] = revision(value, f.now.Leaders[g].Revision)
			} else {
				c.Nodes[id] = revision(value, f.now.Node(id).Revision)
			}
		}
	}
	done, now, err := s.Commit(bg, c)
	if err != nil {
		return countertest.Said(fmt.Sprint("done: ", done), err)
	}
	f.now = now
	leads := map[int]leader.Leader{}
	for g, l := range now.Leaders {
		if l != (leader.Leader{}) {
			leads[g] = l
		}
	}
	lines := []string{fmt.Sprint("done: ", done), f.leaders(leads, "")}
	for _, n := range now.Nodes {
		lines = append(lines, fmt.Sprint("node ", n.Node))
	}
	return strings.Join(lines, "\n")
}

// revision is a number, or now, or one before now.
func revision(word string, now int64) int64 {
	less, since := strings.CutPrefix(word, "now")
	n, _ := strconv.ParseInt(less, 10, 64)
	if since {
		n += now
	}
	return n
}

// leaders says what is known of groups.
func (f *fleet) leaders(all map[int]leader.Leader, none string) string {
	var lines []string
	for _, g := range slices.Sorted(maps.Keys(all)) {
		l := all[g]
		text := fmt.Sprintf("%d: term %d of %s, heir %q", g, l.Number, l.Node, l.Heir)
		if l.Revision != f.now.Leaders[g].Revision {
			text += ", written since"
		}
		lines = append(lines, text)
	}
	return cmp.Or(strings.Join(lines, "\n"), none)
}

// A member is a daemon that takes part in an election, as far as the store of its sequences goes.
type member struct {
	*leader.Runner
	*etcd.Store
	f      *fleet
	id     string
	ends   func() error
	frozen sync.Mutex // while it is held no call gets through, in either direction

	mu    sync.Mutex
	terms map[int]leader.Term
	kept  string // a sequence
}

var began = time.Now()

func clock() int64 { return int64(time.Since(began)) + 1 }

func (m *member) join() {
	m.Runner = leader.NewRunner(leader.Config{
		Me: leader.Node{ID: m.id, Redis: m.id + ":11212"}, Board: m, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Begin: func(t leader.Term) { m.with(func() { m.terms[t.Group] = t }) }, End: m.end,
	})
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	m.ends = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	m.f.t.Cleanup(func() { m.ends() })
}

func (m *member) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// Commit implements leader.Board.
func (m *member) Commit(ctx context.Context, c leader.Change) (bool, leader.State, error) {
	pass := func() {
		m.frozen.Lock()
		defer m.frozen.Unlock()
	}
	pass()
	defer pass()
	return m.Store.Commit(ctx, c)
}

func (m *member) end(t leader.Term) {
	m.with(func() {
		if m.kept != "" && leader.GroupOf(m.kept) == t.Group {
			b := m.f.Granted(m.kept, 0)
			if err := m.Within(t).Return(bg, m.kept, b, b.Lo+1); err != nil {
				m.f.t.Error(err)
			}
			m.kept = ""
		}
		delete(m.terms, t.Group)
	})
}

// term is the one in which a member may answer for a sequence.
func (m *member) term(name string) (t leader.Term, ok bool) {
	m.with(func() { t, ok = m.terms[leader.GroupOf(name)] })
	return t, ok && m.Until(t.Group) > clock()
}

// ofMembers are calls of daemons that take part in an election.
func (f *fleet) ofMembers() script.Calls {
	return script.Calls{
		// join a m: a store, and such a daemon
		"join": func(name, at string) {
			m := &member{f: f, Store: f.open(at), id: name, terms: map[int]leader.Term{}}
			f.Stores[name], f.members[name] = m.Store, m
			m.join()
		},
		// term t a orders [over]: t is what a.Within of its term is, or of one that is not
		"term": func(name, of, sequence string, over ...string) string {
			t := leader.Term{Group: leader.GroupOf(sequence), Fence: 5}
			if m := f.members[of]; m != nil {
				t, _ = m.term(sequence)
			}
			t.Fence -= int64(len(over))
			f.Stores[name] = f.Stores[of].(*etcd.Store).Within(t)
			return fmt.Sprint("term ", t.Number)
		},
		// a demote orders: hands the group of orders over; who leads it then
		"demote": f.demote,
		// a keeps orders: the newest block of it; it gives all but its first value back when its term ends
		"keeps": func(m *member, name string) { m.with(func() { m.kept = name }) },
		"leads": f.leads,
		"knows": func(m *member, name string) string {
			n, _ := m.View().Leader(leader.GroupOf(name))
			return fmt.Sprint(n)
		},
		"terms": func(m *member) (n int) {
			m.with(func() { n = len(m.terms) })
			return n
		},
		"nodes":    func(m *member) int { return len(m.View().Nodes) },
		"replaced": func(m *member) string { return countertest.Said("", m.Replaced()) },
		"freezes":  func(m *member) { m.frozen.Lock() },
		"thaws":    func(m *member) { m.frozen.Unlock() },
		"ends":     func(m *member) error { return m.ends() },
	}
}

func (f *fleet) demote(m *member, name string) string {
	m.Demote(bg, leader.GroupOf(name))
	for _, other := range f.members {
		if _, leads := other.term(name); leads {
			return other.id
		}
	}
	return ""
}

func (f *fleet) leads(m *member, name string) bool {
	for _, other := range f.members {
		_, leads := m.term(name)
		if other != m && leads && clock() < other.Until(leader.GroupOf(name)) {
			f.t.Error("both may answer")
		}
	}
	_, leads := m.term(name)
	return leads
}
