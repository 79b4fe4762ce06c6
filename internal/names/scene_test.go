package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A scene is what the daemons of a script share, and an operator.
type scene struct {
	*board
	t       *testing.T
	dir     string // of the package
	daemons map[string]*Names
	admin   stores.CounterStore
	log     logbook
	seen    map[string]int64 // figures, at the last look
}

// configure makes settings: of a daemon whose store is "files", "memory", "etcd" or "none", with definitions and more.
func (s *scene) configure(store string, words ...string) (c Config) {
	c.MaxWait, c.Own = patience, ownLanes
	switch store {
	case "files":
		c.Counters = stores.Counters{Dir: "state"}
	case "memory":
		c.Counters = stores.Counters{Dir: "/"}
	case "etcd":
		c.Counters = stores.Counters{URL: "etcd://127.0.0.1:1"}
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case strings.Contains(word, " "):
			c.Definitions += word + ";"
		case name == "wait":
			c.MaxWait, err = time.ParseDuration(value)
		case name == "run-ahead":
			c.Own.RunAhead, err = time.ParseDuration(value)
		case name == "max-worker":
			c.Own.MaxWorker, err = strconv.ParseUint(value, 10, 64)
		case name == "layout":
			c.Own.Layout, _ = generator.ParseLayout(value) // the zero Layout is a wrong one
		case name == "file":
			c.DefinitionsFile = value
		case name == "url":
			c.Counters.URL = value
		case name == "password":
			c.Counters.PasswordFile = value
		case name == "dir":
			c.Counters = stores.Counters{Dir: value}
		case name == "by-default":
			c.Counters.DirByDefault = true
		case name == "no-directory":
			c.Own.NoDirectory = true
		case name == "refuse-unknown":
			c.RefuseUnknown = true
		default:
			s.t.Fatalf("%q: what is that?", word)
		}
		if err != nil {
			s.t.Fatalf("%q: %v", word, err)
		}
	}
	return c
}

// settings says what is wrong with settings, or what they declare.
func (s *scene) settings(store string, words ...string) (string, error) {
	c := s.configure(store, words...)
	if err := c.Validate(); err != nil {
		return "", err
	}
	if err := c.ReadSecrets(); err != nil {
		return "", err
	}
	if os.Remove("names"); c.ReadSecrets() != nil { // it may be a pipe
		s.t.Error("files are read twice")
	}
	flag, file := c.DeclaresStrict()
	return fmt.Sprintf("%d names, strict ones in the flag: %v, in the file too: %v", len(c.Defined()), flag, file), nil
}

// daemon opens a daemon with such settings. "at=" opens its ports.
func (s *scene) daemon(who, store string, words ...string) error {
	var address []string
	is := map[string]bool{"unreachable": false, "succeeds": false}
	words = slices.DeleteFunc(words, func(word string) bool {
		at, reaches := strings.CutPrefix(word, "at=")
		if reaches {
			address = append(address, at)
		}
		_, known := is[word]
		if known {
			is[word] = true
		}
		return reaches || known
	})
	n := closed(s.t, s.configure(store, words...))
	n.given.Log, n.given.Unreachable, n.given.Succeeds = slog.New(page{&s.log, who}), is["unreachable"], is["succeeds"]
	if store == "memory" || store == "etcd" {
		s.serve(n, store == "etcd")
	}
	s.daemons[who] = n
	s.t.Cleanup(func() { s.stop(who) })
	if err := n.Open(s.t.Context()); err != nil {
		return err
	}
	n.Start()
	for _, at := range address {
		n.Reachable(at)
	}
	return nil
}

func (s *scene) stop(who string) {
	if n := s.daemons[who]; n != nil {
		n.Stop()
		s.daemons[who] = nil
	}
}

// operator returns an operator's access to the store.
func (s *scene) operator() stores.CounterStore {
	if s.admin == nil {
		s.admin = s.db.Open()
		if _, err := os.Stat("state"); err == nil {
			if s.admin, err = (stores.Counters{Dir: "state", AnyDisk: true}).Open(); err != nil {
				s.t.Fatal(err)
			}
		}
		s.t.Cleanup(func() { s.admin.Close() })
	}
	return s.admin
}

// raise raises a sequence, as whose daemon declares it.
func (s *scene) raise(name string, to uint64, definition ...string) error {
	_, err := stores.Raise(s.t.Context(), s.operator(), name, to, func() (def kinds.Definition) {
		if len(definition) > 0 {
			def = parse(s.t, definition[0])
		}
		return def
	})
	return said(err)
}

// create is what an operator asks a daemon for.
func (s *scene) create(who, line string) (string, error) {
	def := parse(s.t, line)
	r, created, err := s.daemons[who].Create(s.t.Context(), def)
	switch {
	case err != nil && !created:
		return "", said(err)
	case err != nil || r.Name != def.Name:
		return "", fmt.Errorf("created %v, %q: %w", created, r.Name, err)
	case created:
		return "created", nil
	}
	return "there", nil
}

// said is an error with what callers tell it by.
func said(err error) error {
	switch {
	case errors.As(err, new(stores.Conflict)):
		return fmt.Errorf("conflict: %w", err)
	case errors.As(err, new(*kinds.DifferentError)):
		return fmt.Errorf("different: %w", err)
	}
	return err
}

// next returns the next ids of a name: small numbers, and of others what can be told.
func (s *scene) next(who, name string, more ...int) (string, error) {
	var all []string
	for n := max(1, append(more, 1)[0]); len(all) < n; {
		runs, err := s.daemons[who].Catalog.Batch(s.t.Context(), []byte(name), n-len(all))
		if err != nil {
			return strings.Join(all, " "), errors.New(brief(err.Error()))
		}
		for _, r := range runs {
			for i := range r.N {
				text := string(r.Append(nil, i))
				if v, err := strconv.ParseUint(text, 10, 64); err != nil {
					text = fmt.Sprintf("%d characters", len(text))
				} else if len(text) > 16 {
					p := generator.Katsubushi().Decompose(v)
					text = fmt.Sprint("of worker ", p.Worker)
					if time.Since(p.Time).Abs() > patience {
						text += fmt.Sprint(" at ", p.Time)
					}
				}
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, " "), nil
}

// topology says which slots whose clients are sent where.
func (s *scene) topology(who string) string {
	top := s.daemons[who].Topology()
	lines := []string{}
	for _, node := range top.Nodes {
		line := node.ID
		for name, n := range s.daemons {
			if n != nil && n.sequences.election.id == node.ID {
				line = name
			}
		}
		if node.ID == top.Self {
			line += ", itself,"
		}
		line += fmt.Sprintf(" at %s:%d", node.Host, node.Port)
		for _, r := range node.Slots {
			line += fmt.Sprintf(" %d-%d", r.First, r.Last)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines[1:])
	return fmt.Sprintf("epoch %d\n%s", top.Epoch, strings.Join(lines, "\n"))
}

// leaders says who leads, as a daemon knows.
func (s *scene) leaders(who string) string {
	n := s.daemons[who]
	leading, groups := n.Leaders()
	leads, elects := n.Leads()
	if !elects && leading == 0 && groups == nil {
		return "takes no part"
	}
	text := fmt.Sprintf("leads %d", leads)
	if leading != leads {
		s.t.Errorf("%s leads %d groups, and %d", who, leads, leading)
	}
	for _, g := range groups {
		text += fmt.Sprintf("\ngroup %d: term %d of %q, mine %v", g.Number, g.Term, g.Leader, g.Mine)
	}
	return text
}

// all returns the figures of a daemon's election, each with its labels.
func (n *Names) all() map[string]any {
	got := map[string]any{}
	n.LeaderFigures(func(f figure.Figure) {
		for _, name := range []string{f.Stat, f.Metric + strings.Join(f.Labels, " ")} {
			if got[name] = f.Value; f.Count != strings.HasSuffix(name, "_total") {
				got[name] = "not of its type"
			}
		}
	})
	return got
}

func (s *scene) figures(who string, names ...string) string {
	var text []string
	all := s.daemons[who].all()
	for _, name := range names {
		text = append(text, fmt.Sprintf("%s %v", name, all[name]))
	}
	return strings.Join(text, ", ")
}

// grew reports whether a figure has grown by lo to hi since it was looked at, or by how much it has.
func (s *scene) grew(who, name, lo, hi string) string {
	number := func(v any) (n int64) {
		text := fmt.Sprint(v)
		if d, err := time.ParseDuration(text); err == nil {
			return int64(d)
		}
		n, _ = strconv.ParseInt(text, 10, 64)
		return n
	}
	v, was := s.daemons[who].all()[name], s.seen[who+name]
	s.seen[who+name] = number(v)
	if by := number(v) - was; by < number(lo) || by > number(hi) {
		return fmt.Sprintf("by %d to %v", by, v)
	}
	return ""
}

// served says which names a daemon serves, and which of the recorded ones its metrics do not call ready.
func (s *scene) served(who string) string {
	n, ready := s.daemons[who], map[string]bool{}
	n.Metrics(func(f figure.Figure) {
		if f.Stat == "ready" && f.Value == true {
			ready[f.Labels[1]] = true
		}
	})
	if all := n.Catalog.Names(); len(all) > 20 {
		return fmt.Sprint(len(all), " names")
	}
	var lines []string
	for _, g := range n.Catalog.Names() {
		line := g.String()
		if g.Recorded() && !ready[g.Name] {
			line += " (not ready)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// group reads the number of a group, or the name of one of its sequences.
func group(of string) int {
	if g, err := strconv.Atoi(of); err == nil {
		return g
	}
	return leader.GroupOf(of)
}

// fails makes calls of the store fail: "leaders" all those about leaders. "away" and "replaced" are errors that it
// knows, and "" is none.
func (s *scene) fails(calls, text string) {
	var err error
	switch text {
	case "":
	case "away":
		err = fmt.Errorf("%w: no route", counter.ErrUnavailable)
	case "replaced":
		err = fmt.Errorf("%w: this is cluster 2", leader.ErrReplaced)
	default:
		err = errors.New(text)
	}
	s.change(func() {
		for _, call := range strings.Fields(calls) {
			s.errs[call] = err
		}
	})
}

// spoil puts something in the place of the record of a sequence in a file.
func (s *scene) spoil(name, what string) error {
	path := filepath.Join("state", "sequences", name+".sequence")
	os.MkdirAll(filepath.Dir(path), 0o700)
	later := durable.Format{Kind: "sequence", Version: "2"}
	golden, err := os.ReadFile(filepath.Join(s.dir, "../../counter/file/testdata/golden.sequence"))
	switch what {
	case "a-directory":
		return os.Mkdir(path, 0o700)
	case "a-link":
		return os.Symlink("elsewhere", path)
	}
	text := map[string][]byte{
		"zeros": make([]byte, 8192), "nonsense": []byte("nonsense"), "another-machine": golden,
		"a-later-version": later.Append(later.Append(nil, "name later\n"), "name later\n"),
	}[what]
	return errors.Join(err, os.WriteFile(path, text, 0o600))
}

// A logbook has what was logged since it was read.
type logbook struct {
	mu    sync.Mutex
	lines map[string]int
}

// A page is where a daemon writes into it.
type page struct {
	*logbook
	who string
}

func (p page) Enabled(context.Context, slog.Level) bool { return true }
func (p page) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p page) WithGroup(string) slog.Handler            { return p }

// brief cuts what the store's own tests show whole.
func brief(text string) string {
	if len(text) > 160 {
		return text[:160] + " .."
	}
	return text
}

// ids are those of daemons, each time others.
var ids = regexp.MustCompile(` id=[0-9a-f]{40}`)

func (p page) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo && strings.Contains(r.Message, "a group of sequences") { // see "leaders"
		return nil
	}
	line := fmt.Sprintf("- %s: %s %s", p.who, r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line += " " + brief(strings.ReplaceAll(a.String(), "\n", "; "))
		return true
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = map[string]int{}
	}
	p.lines[ids.ReplaceAllString(line, "")]++
	return nil
}

func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line, times := range l.lines {
		if times > 1 {
			line += fmt.Sprintf(" (%d times)", times)
		}
		all = append(all, line)
	}
	if l.lines = nil; len(all) > 20 {
		return fmt.Sprintf("- %d lines in the log", len(all))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// play plays a file.
func play(t *testing.T, path string) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	steps.Run(t, path, func(t *testing.T) steps.Calls {
		today()
		t.Chdir(t.TempDir())
		s := &scene{board: newBoard(), t: t, daemons: map[string]*Names{}, seen: map[string]int64{}}
		s.dir = dir
		return s.calls()
	})
}

func (s *scene) calls() script.Calls {
	of := func(who string) *Names { return s.daemons[who] }
	return script.Calls{
		"":         s.log.take,
		"sleep":    time.Sleep,
		"settings": s.settings,
		"daemon":   s.daemon,
		"stop":     s.stop,
		"declare": func(who string, lines ...string) error {
			var list []kinds.Definition
			for _, line := range lines {
				list = append(list, parse(s.t, line))
			}
			return said(of(who).declare(s.t.Context(), list))
		},
		"next":    s.next,
		"served":  s.served,
		"ready":   func(who string) error { return of(who).Ready() },
		"refused": func(who string) uint64 { return of(who).Refused() },
		"create":  s.create,
		"elector": func(who string) error {
			_, err := of(who).Elector()
			return err
		},
		"users": func(who string) error {
			_, err := of(who).Users()
			return err
		},
		"reload": func(who string) error { return of(who).Reload() },
		"block": func(who, name string) uint64 {
			status, _ := of(who).sequences.keeper.Status(name)
			return status.Block
		},
		"seal": func(who string) { of(who).given.Issuer.Seal(0) },

		"file": func(name string, lines ...string) error {
			return os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600)
		},
		"file-of": func(name, stem string, n int) error {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "%s%d uuid4\n", stem, i)
			}
			return os.WriteFile(name, []byte(b.String()), 0o600)
		},
		"remove":    os.Remove,
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"spoil":     s.spoil,

		"define": func(line string) error {
			_, err := s.operator().Define(s.t.Context(), parse(s.t, line).Definition)
			return err
		},
		"define-odd": func(name string) error {
			_, err := s.operator().Define(s.t.Context(), counter.Sequence(name))
			return err
		},
		"raise": s.raise,
		"retire": func(name string) error {
			_, err := s.operator().Retire(s.t.Context(), name)
			return err
		},
		"show": func(name string) error {
			_, err := s.operator().Show(s.t.Context(), name)
			return err
		},
		"set-back": func(line string) { s.db.SetBack(counter.NewRecord(parse(s.t, line).Definition, "a backup")) },
		"fails":    s.fails,
		"asked": func(call string) (n int) {
			s.change(func() { n, s.asked[call] = s.asked[call], 0 })
			return n
		},

		"reachable": func(who, address string) { of(who).Reachable(address) },
		"handover":  func(who string) { of(who).HandOver() },
		"leaders":   s.leaders,
		"topology":  s.topology,
		"figures":   s.figures,
		"grew":      s.grew,
		"leads": func(sequence, id, address string) {
			if n := of(id); n != nil {
				id = n.sequences.election.id
			}
			s.change(func() {
				s.revision++
				l := &s.Leaders[group(sequence)]
				*l = leader.Leader{Node: leader.Node{ID: id, Redis: address}, Number: l.Number + 1, Revision: s.revision}
			})
		},
		// another daemon, which writes its key each time that one does, or once
		"another": func(id, address string, lives bool) {
			n := leader.NodeKey{Node: leader.Node{ID: id, Redis: address}, Revision: 1}
			s.change(func() {
				if s.put(n); lives {
					s.others = append(s.others, n)
				}
			})
		},
		"others-ahead": func(by time.Duration) { s.change(func() { s.ahead = by }) },
		"demand": func(of string, term uint64, answer ...string) error {
			return s.Leave(s.t.Context(), leader.Demand{Group: group(of), Term: term, Answer: strings.Join(answer, " ")})
		},
		"answered": func(of string) (text string) {
			s.change(func() { text = s.demands[group(of)].Answer })
			return text
		},
		"offset": func(who string) string {
			n := of(who)
			if o := n.sequences.time.offset.Load(); o != 0 {
				return fmt.Sprint(time.Duration(time.Now().UnixNano() - n.boot() - o))
			}
			return "unknown"
		},
		"set-clock": func(who string, by time.Duration) { of(who).sequences.time.offset.Add(int64(by)) },
		"ping": func(who, address string) error {
			return of(who).sequences.election.forward[0].Ping(s.t.Context(), address)
		},
	}
}
