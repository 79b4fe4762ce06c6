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

// TestScripts plays scripts on real servers. Beside the calls of countertest.Stage:
//
//	server m [WORDS]      an etcd
//	proxy p m             a proxy in front of it; p cuts, p refuses on|off, p to m
//	password hush         what is in the file of passwords
//	open a m [as kb] [for 100ms]   a store
//	join a m              a store, and a daemon that takes part in the election
//	a demote orders       hands the group of orders over; who leads it then
//	a keeps orders        the newest block of it; it gives all but its first value back when its term ends
//	a leads orders, a knows orders, a terms, a nodes, a replaced, a freezes, a thaws, a ends
//	term t a orders [over]   t is what a.Within of its term is, or of one that is not
//	a commit [if 0=now-1 x=0] [lead 0:x:1:HEIR ...] [put x] [drop x]   groups are numbers, daemons are not
//	a watches             a saw is what it saw next, and a watched how it ended
//	a texts users
//	a edit users ann 1 [while 5]   the new text, "-" for none, "no" for an error; and the one that another daemon writes
//	m etcdctl WORDS       m puts KEY TEXT, m gets KEY, m copies KEY TO: below /katsubushi/shop/
//	m fills, m compacts   takes room, and gives it back, with all that was written before
//	m kills, m launches, m restores n   the last from a snapshot of n, as another cluster
func TestScripts(t *testing.T) {
	for _, name := range []string{"elections", "servers"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script.Run(t, "testdata/"+name+".script", func(t *testing.T, play func(script.Do)) {
				play((&fleet{Stage: countertest.NewStage(t), t: t, servers: map[string]*etcdtest.Member{},
					proxies: map[string]*redistest.Proxy{}, members: map[string]*member{},
					watches: map[string]*watch{}, since: map[string]string{},
					password: filepath.Join(t.TempDir(), "password")}).do)
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
	watches  map[string]*watch
	since    map[string]string // of texts, by store
	now      leader.State      // that a commit read last
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
	said := countertest.StoodStill(f.command(words))
	for name, s := range f.servers {
		said = strings.ReplaceAll(said, s.Addr(), name)
	}
	return ids.ReplaceAllString(strings.TrimSpace(said), "ID")
}

func (f *fleet) command(words []string) string {
	switch words[0] {
	case "server":
		f.servers[words[1]] = etcdtest.Start(f.t, words[2:]...)
	case "proxy":
		f.proxies[words[1]] = redistest.NewProxy(f.t, f.servers[words[2]].Addr())
	case "password":
		if err := os.WriteFile(f.password, []byte(words[1]+"\n"), 0o600); err != nil {
			f.t.Fatal(err)
		}
	case "open":
		f.Stores[words[1]] = f.open(words[2], words[3:])
	case "join":
		m := &member{f: f, Store: f.open(words[2], nil), id: words[1], terms: map[int]leader.Term{}}
		f.Stores[words[1]], f.members[words[1]] = m.Store, m
		m.join()
	case "term":
		t := leader.Term{Group: leader.GroupOf(words[3]), Fence: 5}
		if m := f.members[words[2]]; m != nil {
			t, _ = m.term(words[3])
		}
		if len(words) > 4 {
			t.Fence--
		}
		f.Stores[words[1]] = f.Stores[words[2]].(*etcd.Store).Within(t)
		return fmt.Sprint("term ", t.Number)
	default:
		return f.named(words[0], words[1], words[2:])
	}
	return ""
}

// named is what a server, a proxy, a daemon or a store does.
func (f *fleet) named(name, what string, words []string) string {
	if s := f.servers[name]; s != nil {
		return f.server(s, what, words)
	}
	if p := f.proxies[name]; p != nil {
		switch what {
		case "to":
			p.Retarget(f.servers[words[0]].Addr())
		case "refuses":
			p.Refuse(words[0] == "on")
		}
		p.Cut()
		return ""
	}
	if m := f.members[name]; m != nil {
		if said, ok := m.do(what, append(words, "")[0]); ok {
			return said
		}
	}
	if s, ok := f.Stores[name].(*etcd.Store); ok {
		if said, ok := f.store(name, s, what, words); ok {
			return said
		}
	}
	return f.Do(append([]string{name, what}, words...))
}

func (f *fleet) server(s *etcdtest.Member, what string, words []string) string {
	key := "/katsubushi/shop/" + append(words, "")[0]
	switch what {
	case "etcdctl":
		said, err := s.ControlOnce(words...)
		if countertest.StoodStill(said); err != nil {
			f.t.Fatalf("etcdctl %v: %v: %s", words, err, said)
		}
		return said
	case "puts":
		s.Put(key, strings.Join(words[1:], " "))
	case "gets":
		return s.Get(key)
	case "copies":
		s.Put("/katsubushi/shop/"+words[1], s.Get(key))
	case "fills":
		_, err := s.Client().Put(bg, "big", strings.Repeat("x", 50_000))
		return fmt.Sprint(err)
	case "compacts":
		got, err := s.Client().Get(bg, "any")
		if err == nil {
			_, err = s.Client().Compact(bg, got.Header.Revision)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	case "restores":
		file := filepath.Join(f.t.TempDir(), "snapshot")
		f.servers[words[0]].Snapshot(file)
		s.Kill()
		etcdtest.Replace([]*etcdtest.Member{s}, file)
		s.Launch()
	default:
		map[string]func(){"kills": s.Kill, "launches": s.Launch}[what]()
	}
	return ""
}

// open opens a Store of a server, or of what stands before it.
func (f *fleet) open(at string, words []string) *etcd.Store {
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

// store is a call that only etcd's stores have.
func (f *fleet) store(name string, s *etcd.Store, what string, words []string) (said string, ok bool) {
	switch what {
	case "commit":
		return f.commit(s, words), true
	case "watches":
		w := &watch{make(chan map[int]leader.Leader, 1000), make(chan error, 1)}
		f.watches[name] = w
		go func() { w.ended <- s.Watch(f.t.Context(), func(saw map[int]leader.Leader) { w.saw <- saw }) }()
	case "saw":
		select {
		case saw := <-f.watches[name].saw:
			return f.leaders(saw, "other keys"), true
		default:
		}
	case "watched":
		select {
		case err := <-f.watches[name].ended:
			return fmt.Sprint("ended with an error: ", err != nil && !errors.Is(err, context.Canceled)), true
		default:
		}
	case "texts":
		now, texts, err := s.Texts(bg, words[0], f.since[name])
		if now == f.since[name] && texts == nil {
			return countertest.Said("unchanged", err), true
		}
		f.since[name] = now
		return countertest.Said(texts, err), true
	case "edit":
		var was []string
		err := s.Edit(bg, words[0], words[1], func(text string) (string, error) {
			if was = append(was, text); words[2] == "no" {
				return "x", errors.New("no")
			}
			if len(words) > 3 && len(was) == 1 {
				f.store(name, s, what, append(words[:2:2], words[4]))
			}
			return strings.Trim(words[2], "-"), nil
		})
		return countertest.Said(fmt.Sprintf("was %q", was), err), true
	default:
		return "", false
	}
	return "", true
}

// commit makes a Change, and says what it read.
func (f *fleet) commit(s *etcd.Store, words []string) string {
	c, kind := leader.Change{Leaders: map[int]int64{}, Nodes: map[string]int64{}, Lead: map[int]leader.Leader{}}, ""
	for _, word := range words {
		if slices.Contains([]string{"if", "lead", "put", "drop"}, word) {
			kind = word
			continue
		}
		id, value, _ := strings.Cut(word, "=")
		g, err := strconv.Atoi(strings.SplitN(id, ":", 2)[0])
		switch is := err == nil; kind {
		case "put":
			c.Put = &leader.Node{ID: word, Redis: word + ":11212"}
		case "drop":
			c.Drop = append(c.Drop, word)
		case "lead":
			l := append(strings.Split(word, ":"), "")
			n, _ := strconv.ParseUint(l[2], 10, 64)
			c.Lead[g] = leader.Leader{Node: leader.Node{ID: l[1], Redis: l[1]}, Number: n, Heir: l[3]}
		default:
			less, now := strings.CutPrefix(value, "now")
			revision, _ := strconv.ParseInt(less, 10, 64)
			if is && now {
				revision += f.now.Leaders[g].Revision
			} else if now {
				revision += f.now.Node(id).Revision
			}
			if is {
				c.Leaders[g] = revision
			} else {
				c.Nodes[id] = revision
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

func (m *member) do(what, name string) (said string, ok bool) {
	group := leader.GroupOf(name)
	switch what {
	case "demote":
		m.Demote(bg, group)
		for _, other := range m.f.members {
			if _, leads := other.term(name); leads {
				return other.id, true
			}
		}
	case "keeps":
		m.with(func() { m.kept = name })
	case "leads":
		for _, other := range m.f.members {
			_, leads := m.term(name)
			if other != m && leads && clock() < other.Until(group) {
				m.f.t.Error("both may answer")
			}
		}
		_, leads := m.term(name)
		return fmt.Sprint(leads), true
	case "knows":
		n, _ := m.View().Leader(group)
		return fmt.Sprint(n), true
	case "terms":
		m.with(func() { said = fmt.Sprint(len(m.terms)) })
	case "nodes":
		return fmt.Sprint(len(m.View().Nodes)), true
	case "replaced":
		return countertest.Said("", m.Replaced()), true
	case "freezes":
		m.frozen.Lock()
	case "thaws":
		m.frozen.Unlock()
	case "ends":
		return countertest.Said("", m.ends()), true
	default:
		return "", false
	}
	return said, true
}
