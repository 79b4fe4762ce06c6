package cas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A scene is a world with daemons, lanes and an operator that have names.
type scene struct {
	*world
	faults   faults
	daemons  map[string]*daemon // by lane too
	grants   map[string]workerid.Grant
	saved    memcas.State
	epochs   map[string]int // in the order in which they are seen
	operator *cas.Admin
}

var errLost = errors.New("the answer did not come")

// faults are of the way to the store.
type faults struct {
	away            bool // no connection is made
	writes          int  // so many are carried out, and then none; below 0 = all
	answers, raises int  // so many are lost
	asked           []string
	move            func() // before something is read or written
}

// around notes what is asked of the store, and lets the faults happen.
func (f *faults) around(_ context.Context, what string, call func() error) error {
	switch what {
	case "connect", "publish", "list", "close":
		if f.away {
			return errLost
		}
		return call()
	}
	f.asked = append(f.asked, what)
	f.move()
	if !strings.HasPrefix(what, "write") {
		return call()
	}
	if what == "write meta" {
		f.raises--
	}
	if f.writes == 0 || what == "write meta" && f.raises >= 0 {
		return errLost
	}
	f.writes--
	err := call()
	if f.answers--; f.answers >= 0 {
		return errLost
	}
	return err
}

// ofAdmin is for what an operator's command asks. A busy server takes longer for that, or for a login, than a call of a
// daemon may.
func (s *scene) ofAdmin(ctx context.Context, what string, call func() error) error {
	if until, _ := ctx.Deadline(); time.Until(until) != 10*time.Second {
		s.Errorf("%s may take %v", what, time.Until(until))
	}
	return s.faults.around(ctx, what, call)
}

func newScene(t *testing.T) *scene {
	return &scene{world: newWorld(t), daemons: map[string]*daemon{}, grants: map[string]workerid.Grant{},
		epochs: map[string]int{}, faults: faults{writes: -1, move: func() {}}}
}

// terms are LAYOUT, MIN, MAX and LEASE.
func (s *scene) named(layout string, lo, hi uint64, lease time.Duration) workerid.Terms {
	t := s.terms(lo, hi)
	t.Layout, t.Lease = layout, lease
	return t
}

func (s *scene) openAdmin(layout string, lo, hi uint64, lease time.Duration) error {
	c := s.config(s.named(layout, lo, hi, lease))
	c.Driver = hooked(s.server, s.ofAdmin)
	a, err := cas.OpenAdmin(c)
	s.operator = a
	return err
}

func (s *scene) enter(name string, lo, hi uint64) *daemon {
	d := s.daemon(name, lo, hi)
	d.Driver = hooked(s.server, s.faults.around)
	s.daemons[name] = d
	return d
}

// lane makes another lane of a daemon.
func (s *scene) lane(name, of string) { s.daemons[name] = s.daemons[of] }

// earlier keeps what a lane has now, for a call that comes late.
func (s *scene) earlier(name, lane string) {
	s.daemons[name], s.grants[name] = s.daemons[lane], s.grants[lane]
}

// acquire is for a lane, which asks again when the time of a watch has passed, so many times at most.
func (s *scene) acquire(lane string, watches ...int) (string, error) {
	d := s.daemons[lane]
	d.owner = lane
	g, err := d.Acquire(ctx, d.want())
	for n := 0; len(watches) > 0 && n < watches[0] && errors.As(err, &cas.Watching{}); n++ {
		s.boot += watch
		g, err = d.Acquire(ctx, d.want())
	}
	if err != nil {
		return "", retried(err)
	}
	d.Heard(g)
	s.grants[lane] = g
	return s.window(g), nil
}

// retried adds to an error when to ask again.
func retried(err error) error {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		return fmt.Errorf("%w (again in %v)", err, hint.RetryAfter())
	}
	return err
}

// window says from when to when one is, from now.
func (s *scene) window(g workerid.Grant) string {
	return fmt.Sprintf("from %d to %d ms", g.Lo-s.now(), g.Hi-s.now())
}

func (s *scene) extend(lanes ...string) string {
	var held []workerid.Grant
	for _, lane := range lanes {
		held = append(held, s.grants[lane])
	}
	results, err := s.daemons[lanes[0]].Extend(ctx, held)
	if err != nil {
		return "error: " + err.Error()
	}
	var said []string
	for i, r := range results {
		if r.Err != nil {
			said = append(said, "error: "+retried(r.Err).Error())
			continue
		}
		g, anew := held[i], ""
		if r.Grant.Lo != g.Hi+1 {
			anew = fmt.Sprintf(", and now from %d", r.Grant.Lo-s.now())
		}
		g.Hi = max(g.Hi, r.Grant.Hi)
		s.grants[lanes[i]] = g
		said = append(said, s.window(g)+anew)
	}
	return strings.Join(said, "\n")
}

// crowd makes n lanes of a daemon, whose names begin with the daemon's, after its watch.
func (s *scene) crowd(daemon string, n int) error {
	for i := range n {
		lane := fmt.Sprint(daemon, i)
		s.lane(lane, daemon)
		if _, err := s.acquire(lane, 1); err != nil {
			return err
		}
	}
	s.faults.asked = nil
	return nil
}

// extendCrowd extends all of these together, and counts what is said.
func (s *scene) extendCrowd(daemon string, n int) string {
	var lanes []string
	for i := range n {
		lanes = append(lanes, fmt.Sprint(daemon, i))
	}
	counts := map[string]int{}
	for said := range strings.Lines(s.extend(lanes...)) {
		counts[strings.TrimSpace(said)]++
	}
	return strings.TrimPrefix(fmt.Sprint(counts), "map")
}

// beat extends a lane so many times, a second apart.
func (s *scene) beat(lane string, n int) (said string) {
	for range n {
		s.boot += 1000
		said = s.extend(lane)
	}
	return said
}

func (s *scene) showRecord(worker uint64) string {
	text := s.server.Record(worker)
	r, err := pool.ParseRecord(text)
	switch {
	case err != nil:
		return fmt.Sprintf("unreadable: %q", text)
	case r == pool.Record{}:
		return "never used"
	}
	return fmt.Sprintf("mark %d ms from now, of %q", r.Mark-s.now(), r.Owner)
}

// set writes a record with a mark, from now. The token "own" is that of an earlier write of the record's owner.
func (s *scene) set(worker uint64, mark int64, token, owner string) {
	if token == "own" {
		token = strings.TrimRight(s.record(worker).Token, "0123456789") + "1"
	}
	s.server.SetRecord(worker, pool.Record{Mark: s.now() + mark, Lo: 5, Token: token, Owner: owner}.String())
}

func (s *scene) showMeta() string {
	text := s.server.Save().View().Meta
	if text == "" {
		return "none"
	}
	m := s.server.Meta()
	if s.epochs[m.Epoch] == 0 {
		s.epochs[m.Epoch] = len(s.epochs) + 1
	}
	return fmt.Sprintf("epoch %d, floor %d ms from now, %s", s.epochs[m.Epoch], m.Floor-s.now(), m.Settings())
}

func (s *scene) changeMeta(change func(m *pool.Meta)) {
	m := s.server.Meta()
	change(&m)
	s.server.SetMeta(m)
}

// report is what an operator is told, as JSON and in rows.
func report(r any, err error) (string, error) {
	b, _ := json.Marshal(r)
	said := strings.ReplaceAll(string(b), "},{", "},\n{")
	if r, ok := r.(workerid.Report); ok {
		said += fmt.Sprint("\n", r.Rows())
	}
	return said, err
}

// besides says what was asked of the store.
func (s *scene) besides() string {
	asked := s.faults.asked
	s.faults.asked = nil
	if len(asked) == 0 {
		return ""
	}
	if n := len(asked); n > 10 && len(slices.Compact(slices.Clone(asked))) == 1 {
		asked = []string{fmt.Sprintf("%s %d times", asked[0], n)}
	}
	return "- asked to " + strings.Join(asked, ", ")
}

// TestSessions: what daemons find in a pool. The rules C1 to C6 are those of docs/LEASES.md.
func TestSessions(t *testing.T) { play(t, "testdata/sessions.txt") }

// TestOperator: what operators do with a pool.
func TestOperator(t *testing.T) { play(t, "testdata/operator.txt") }

func play(t *testing.T, path string) {
	steps.Run(t, path, func(t *testing.T) steps.Calls { return newScene(t).calls() })
}

func (s *scene) calls() steps.Calls {
	return steps.Calls{
		"":          s.besides,
		"pool":      s.init,
		"pass":      func(ms int64) { s.boot += ms },
		"daemon":    func(name string, lo, hi uint64) { s.enter(name, lo, hi) },
		"lane":      s.lane,
		"earlier":   s.earlier,
		"autoinit":  func(daemon string) { s.daemons[daemon].AutoInit = true },
		"its-clock": func(daemon string, wrong int64) { s.daemons[daemon].wrong = wrong },
		"clocks": func(daemon string) string { // of holders, as it sees them
			status := s.daemons[daemon].Status()
			return fmt.Sprintf("%v ahead, of %d", status.Ahead, status.Holders)
		},
		"acquire":      s.acquire,
		"extend":       s.extend,
		"beat":         s.beat,
		"crowd":        s.crowd,
		"extend-crowd": s.extendCrowd,
		"set-of": func(lane string, mark int64, token, owner string) {
			s.set(s.grants[lane].Worker, mark, token, owner)
		},
		"release": func(lane string, last int64) error {
			return s.daemons[lane].Release(ctx, s.grants[lane], s.now()+last)
		},
		"upkeep": func(daemon string) { s.daemons[daemon].Upkeep(ctx) },
		"idle":   func(daemon string) bool { return s.daemons[daemon].Idle() },
		"announce": func(daemon, text string) {
			s.daemons[daemon].Announced = func() map[string]string { return map[string]string{"x": text} }
		},
		"request": func(daemon string, lo, hi uint64) error {
			_, err := s.daemons[daemon].Acquire(ctx, workerid.Request{Owner: daemon, Min: lo, Max: hi})
			return err
		},
		"same-id": func(a, b string) bool { return s.grants[a].Worker == s.grants[b].Worker },

		// the store
		"break":        func() { s.server.Break() },
		"expire":       func() { s.server.Expire() },
		"save":         func() { s.saved = s.server.Save() },
		"restore":      func() { s.server.Restore(s.saved) },
		"keep":         s.keepRecord,
		"record":       s.showRecord,
		"record-of":    func(lane string) string { return s.showRecord(s.grants[lane].Worker) },
		"presence":     func(worker uint64) string { return fmt.Sprintf("%q", s.server.Present(worker)) },
		"set":          s.set,
		"set-text":     s.server.SetRecord,
		"meta":         s.showMeta,
		"set-meta":     s.server.SetMetaText,
		"set-floor":    func(ms int64) { s.changeMeta(func(m *pool.Meta) { m.Floor = s.now() + ms }) },
		"set-epoch":    func(epoch string) { s.changeMeta(func(m *pool.Meta) { m.Epoch = epoch }) },
		"be-present":   s.announceStranger,
		"away":         func(is bool) { s.faults.away = is },
		"writes-left":  func(n int) { s.faults.writes = n },
		"lose-answers": func(n int) { s.faults.answers = n },
		"fail-raises":  func(n int) { s.faults.raises = n },

		// an operator
		"operator":        s.openAdmin,
		"operators-clock": func(wrong int64) { s.wrong = wrong },
		"init":            func(how string) (string, error) { return s.operator.Init(ctx, workerid.How(how)) },
		"list":            func() (string, error) { return report(s.operator.List(ctx)) },
		"free":            func(worker uint64) (string, error) { return report(s.operator.Release(ctx, worker)) },
		"free-lane": func(lane string) (string, error) {
			freed, err := s.operator.Release(ctx, s.grants[lane].Worker)
			return fmt.Sprintf("of %q, until %d ms from now", freed.Owner, freed.Until.UnixMilli()-s.now()), err
		},
		"restored":    func() (string, error) { return report(s.operator.Restored(ctx)) },
		"reset-clock": func() (string, error) { return report(s.operator.ResetClock(ctx)) },
		"stats":       func() (string, error) { return report(s.operator.Stats(ctx)) },
		// meanwhile 2 set-epoch x: a call before the store is asked for the second time from now on
		"meanwhile": func(nth int, call ...string) {
			s.faults.move = func() {
				if nth--; nth == 0 {
					s.calls().Do(s.T, call)
				}
			}
		},
		"unused": s.unused,
	}
}

// keepRecord keeps the record of a lane through what comes next: a restore that is not of everything.
func (s *scene) keepRecord(lane string) {
	now := s.server.Record(s.grants[lane].Worker)
	s.server.Restore(s.saved)
	s.server.SetRecord(s.grants[lane].Worker, now)
}

// announceStranger makes another daemon's presence at a worker id.
func (s *scene) announceStranger(worker uint64, owner string) error {
	d := &memcas.Driver{Server: s.server}
	conn, _ := d.Connect(ctx)
	return d.Announce(ctx, conn, worker, pool.Presence{Owner: owner, Addr: owner + ":1"}.String())
}

// unused counts the worker ids that were never used.
func (s *scene) unused() (n int) {
	for _, text := range s.server.Save().View().Records {
		if text == (pool.Record{}).String() {
			n++
		}
	}
	return n
}
