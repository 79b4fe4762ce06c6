package fleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const (
	fresh      = 5 * time.Second // for so long an answer, and the list, is not asked for again
	atOnce     = 64              // daemons that are asked at the same time
	maxMembers = 1024            // that are asked and listed: as many as the default layout has worker ids
	listTime   = time.Second     // of reading the announcements
)

// Config holds the settings of a Fleet. All are required.
type Config struct {
	Directory workerid.Directory
	Name      string                           // of this daemon's announcement, which is left out
	Self      func() announcement.Announcement // this daemon's; one with its address is an earlier run
	Ask       func(ctx context.Context, address string, encrypted bool) (announce.Reply, error)
	Log       *slog.Logger
}

// A Fleet knows the other daemons. Any goroutine may call its methods.
type Fleet struct {
	c    Config
	ctx  context.Context // ends with Stop
	end  context.CancelFunc
	work sync.WaitGroup

	mu               sync.Mutex
	started          bool
	members          map[string]*member // by address, or by name where there is none
	more, unreadable int
	listing          bool
	listed           time.Time // the list was read then, or could not be read
	problem          string
	asking           int           // how many are asked now
	looking          int           // how many wait for answers
	looked           time.Time     // somebody looked then, the last time
	news             chan struct{} // closed at the next change
}

// A member is another daemon that is announced.
type member struct {
	announcement.Announcement
	name        string
	asked, told time.Time // it was asked then, and its answer or failure known
	asking      bool
	reply       announce.Reply
	trouble     string // of the last time
}

// New makes a Fleet, which asks nobody before Start, nor after Stop.
func New(c Config) *Fleet {
	f := &Fleet{c: c, news: make(chan struct{})}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// Start lets it ask.
func (f *Fleet) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
}

// Stop ends what is under way. Nobody is asked any more.
func (f *Fleet) Stop() {
	f.mu.Lock()
	f.end()
	f.mu.Unlock()
	f.work.Wait()
}

// Look returns what is known of the other daemons. It waits until all have answered, or have not in their time, but
// not for longer than patience; what is missing then is there for a later Look.
func (f *Fleet) Look(patience time.Duration) Roster {
	over := time.NewTimer(patience)
	defer over.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	begun := time.Now()
	f.looked = begun
	f.looking++
	defer func() { f.looking-- }()
	f.advance()
	for waiting := f.started && patience > 0; waiting && f.ctx.Err() == nil && !f.knows(begun.Add(-fresh)); {
		news := f.news
		f.mu.Unlock()
		select {
		case <-news:
		case <-over.C:
			waiting = false
		case <-f.ctx.Done():
		}
		f.mu.Lock()
	}
	return f.roster()
}

// knows reports whether everything that is known is of a moment or later.
func (f *Fleet) knows(since time.Time) bool {
	if f.listing || f.listed.Before(since) {
		return false
	}
	for _, m := range f.members {
		if m.Addr != "" && m.told.Before(since) {
			return false
		}
	}
	return true
}

// advance reads the list and asks daemons, as far as the last look needs it and the limits allow. The caller holds mu.
func (f *Fleet) advance() {
	now := time.Now()
	if !f.started || f.ctx.Err() != nil || f.looking == 0 && now.Sub(f.looked) >= fresh {
		return
	}
	if !f.listing && f.looked.Sub(f.listed) >= fresh {
		f.listing = true
		f.work.Go(f.list)
	}
	for f.asking < atOnce {
		m := f.next()
		if m == nil {
			return
		}
		m.asking, m.asked = true, now
		f.asking++
		a := m.Announcement // what is announced may change meanwhile
		f.work.Go(func() { f.ask(m, a) })
	}
}

// next returns the daemon whose turn it is to be asked, or nil. Those that did not answer the last time come later,
// so that they do not hold up the others. None was asked after the last look, so none is asked again before the next.
func (f *Fleet) next() (first *member) {
	var firstTurn time.Time
	for _, m := range f.members {
		if m.Addr == "" || m.asking || f.looked.Sub(m.asked) < fresh {
			continue
		}
		turn := m.asked
		if m.trouble != "" {
			turn = turn.Add(fresh)
		}
		if first == nil || turn.Before(firstTurn) {
			first, firstTurn = m, turn
		}
	}
	return first
}

// changed wakes those that wait. The caller holds mu.
func (f *Fleet) changed() {
	close(f.news)
	f.news = make(chan struct{})
}

// ask asks a daemon where it is announced.
func (f *Fleet) ask(m *member, at announcement.Announcement) {
	reply, err := f.c.Ask(f.ctx, at.Addr, at.TLS)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking--
	trouble := ""
	if err != nil {
		trouble = announce.Trouble(err)
	}
	if trouble != m.trouble {
		f.c.Log.Debug("a daemon of the fleet was asked", "addr", at.Addr, "error", err)
	}
	m.asking, m.told, m.reply, m.trouble = false, time.Now(), reply, trouble
	f.advance()
	f.changed()
}

// list reads who is announced.
func (f *Fleet) list() {
	ctx, cancel := context.WithTimeout(f.ctx, listTime)
	defer cancel()
	f.mu.Lock()
	known := f.known()
	f.mu.Unlock()
	entries, left, err := f.announced(ctx, known)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listing, f.listed, f.problem = false, time.Now(), ""
	if err != nil {
		f.c.Log.Debug("cannot read the announcements", "error", err)
		f.problem = "The store did not say who is announced."
		if r := (interface{ Reason() string })(nil); errors.As(err, &r) {
			f.problem = "The store refuses to say who is announced: " + r.Reason() + "."
		}
	} else {
		f.take(entries)
		if f.more += left; f.more > 0 {
			f.problem = Cut
		}
	}
	f.advance()
	f.changed()
}

// announced reads who is announced, those that are known first, and how many entries the store left out.
func (f *Fleet) announced(ctx context.Context, known []string) (entries map[string]string, left int, err error) {
	d, ok := f.c.Directory.(interface {
		Listing(ctx context.Context, known []string) (map[string]string, int, error)
	})
	if ok {
		return d.Listing(ctx, known)
	}
	entries, err = f.c.Directory.Peers(ctx)
	return entries, 0, err
}

// known returns the names of those that have answered. The caller holds mu.
func (f *Fleet) known() (names []string) {
	for _, m := range f.members {
		if m.answered() {
			names = append(names, m.name)
		}
	}
	return names
}

// answered reports whether the daemon has answered when it was asked last.
func (m *member) answered() bool { return !m.told.IsZero() && m.trouble == "" }

// inTurn returns names in the order in which they find room: those that have answered, then in random order those that
// nobody has asked, then those that have not answered. So nobody hides behind names that others have written.
func inTurn(all map[string]announcement.Announcement, before map[string]*member) []string {
	names := slices.Collect(maps.Keys(all))
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	turn := map[string]int{}
	for _, name := range names {
		switch m := before[cmp.Or(address(all[name].Addr), name)]; {
		case m == nil || m.told.IsZero():
			turn[name] = 1
		case !m.answered():
			turn[name] = 2
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return turn[a] - turn[b] })
	return names
}

// take replaces the list. What is known of those that stay is kept.
func (f *Fleet) take(entries map[string]string) {
	entries = maps.Clone(entries)
	delete(entries, f.c.Name)
	before, own := f.members, address(f.c.Self().Addr)
	f.members, f.more, f.unreadable = map[string]*member{}, 0, 0
	for _, text := range entries {
		if _, err := announcement.Parse(text); err != nil {
			f.unreadable++
		}
	}
	all := announcement.Latest(entries)
	for _, name := range inTurn(all, before) {
		a := all[name]
		key := cmp.Or(address(a.Addr), name)
		if a.Addr != "" && key == own {
			continue
		}
		m := f.members[key]
		switch {
		case m != nil && m.At > a.At: // of one written in two ways too the latest counts
			continue
		case m != nil:
		case len(f.members) == maxMembers:
			f.more++
			continue
		default:
			if m = before[key]; m == nil {
				m = new(member)
			}
			f.members[key] = m
		}
		m.Announcement, m.name = a, name
	}
}

// address writes an address in one way, so that nobody is asked twice because of how it is written.
func address(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	n, err2 := strconv.ParseUint(port, 10, 16)
	if err != nil || err2 != nil {
		return addr
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10))
}

// roster returns what is known.
func (f *Fleet) roster() Roster {
	r := Roster{Members: []Member{}, More: f.more, Unreadable: f.unreadable, Problem: f.problem}
	for _, m := range f.members {
		r.Members = append(r.Members, m.shown())
	}
	slices.SortFunc(r.Members, func(a, b Member) int { return a.Before(&b) })
	return r
}

// shown returns the daemon as it is shown.
func (m *member) shown() Member {
	s := Member{Addr: plain(m.Addr), Workers: m.Workers, Version: plain(m.Version), State: Asking}
	switch {
	case m.Addr == "":
		s.State = NotReady
	case m.told.IsZero():
	case m.trouble != "":
		s.State = m.trouble
	default:
		s.State = NotReady
		if m.Ready {
			s.State = Ready
		}
		s.answer(m.reply, m.told)
	}
	return s
}
