package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// This file has what daemons and operators of a scene do, and how their answers are written.

// with has daemons make a call, and says what they hold then. Those that there are not begin.
func (s *scene) with(names []string, call func(*daemon) error) string {
	var said []string
	for _, name := range names {
		d := s.daemons[name]
		if d == nil {
			d = s.daemon(s.clocked(name))
			s.daemons[name] = d
		}
		text := ""
		if err := call(d); err != nil {
			text = s.why(err)
		} else if d.grant.Owner != "" {
			text = s.window(d.grant)
		}
		said = append(said, name+": "+text)
	}
	return strings.Join(said, "\n")
}

func (s *scene) acquire(timeout time.Duration) func(*daemon) error {
	return func(d *daemon) error { return d.tryAcquire(timeout) }
}

func (s *scene) extend(timeout time.Duration) func(*daemon) error {
	return func(d *daemon) error { return d.tryExtend(timeout) }
}

func (s *scene) window(g workerid.Grant) string {
	if g.Hi < g.Lo {
		return fmt.Sprintf("%d after %v", g.Worker, s.since(g.Hi))
	}
	return fmt.Sprintf("%d from %v to %v", g.Worker, s.since(g.Lo), s.since(g.Hi))
}

// since is a time, from the beginning of the script on.
func (s *scene) since(ms int64) time.Duration {
	return time.Duration(ms-startOfTime) * time.Millisecond
}

// why is an error's text, or "no answer" and Redis's word for it, if there is one.
func (s *scene) why(err error) string {
	for _, known := range []error{workerid.ErrLost, workerid.ErrCloned, workerid.ErrShared, workerid.ErrUnconfirmed,
		ErrEvicts} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	if certain(err) {
		return err.Error()
	}
	var answer goredis.Error
	if errors.As(err, &answer) {
		return "Redis says " + strings.Fields(answer.Error())[0]
	}
	return "no answer"
}

func (s *scene) holders(names ...string) string {
	s.init(New)
	s.advance(1)
	s.with(names, s.acquire(redislink.Patience))
	s.advance(lease / 2)
	return s.with(names, (*daemon).settle)
}

// keep has daemons extend for a while, the first time until the answer is certain.
func (s *scene) keep(names ...string) (said string) {
	for range 3 {
		s.advance(5000)
		said = s.with(names, (*daemon).settle)
	}
	return said
}

// soon makes a call that is given up soon, and sent one that is given up as soon as it comes to the proxy.
func (s *scene) soon(what string, names ...string) string {
	if what == "acquire" {
		return s.with(names, s.acquire(soon))
	}
	return s.with(names, s.extend(soon))
}

func (s *scene) sent(proxy, what, name string) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.proxies[proxy].Observe(func([]byte) { cancel() })
	defer s.proxies[proxy].Observe(nil)
	return s.with([]string{name}, func(d *daemon) error {
		if what == "acquire" {
			return d.acquireIn(ctx)
		}
		return d.extendIn(ctx)
	})
}

// giveBack releases what was issued up to "now", "lo" or "hi" and some ms.
func (s *scene) giveBack(name string, last string, more ...int64) string {
	d := s.daemons[name]
	at := map[string]int64{"now": s.now(), "lo": d.grant.Lo, "hi": d.grant.Hi}[last]
	for _, n := range more {
		at += n
	}
	if err := d.release(at); err != nil {
		return s.why(err)
	}
	return ""
}

// copied makes name a copy of a daemon's process.
func (s *scene) copied(of, name string) {
	s.with([]string{name}, func(d *daemon) error {
		from := s.daemons[of]
		d.memory, d.owner, d.grant = *from.remembered(), from.owner, from.grant
		return nil
	})
}

func (s *scene) status(name string) string {
	n := s.daemons[name].Status()
	if !slices.Contains(s.histories, n.Incarnation) {
		s.histories = append(s.histories, n.Incarnation)
	}
	return fmt.Sprintf("at %s, %v ahead, history %d, %d of %d replicas", n.Addr, n.Ahead,
		slices.Index(s.histories, n.Incarnation)+1, n.Replicas, n.Needed)
}

func (s *scene) list() (string, error) {
	all, err := s.operator().List(context.Background())
	var said []string
	for _, l := range all {
		said = append(said, fmt.Sprintf("%d %s using=%v ttl=%v expires %v from %v until %v", l.Worker, cmp.Or(l.Owner, "-"),
			l.Using, l.TTL, s.when(l.ExpireAt), s.when(l.From), s.when(l.Until)))
	}
	return strings.Join(said, "\n"), err
}

// when is a time since the beginning, or a year that is far away.
func (s *scene) when(t time.Time) string {
	if since := s.since(t.UnixMilli()); since.Abs() < 24*time.Hour {
		return since.String()
	}
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprint(t.Year())
}

func (s *scene) stats(names ...string) (string, error) {
	all, err := s.operator().Stats(context.Background())
	var said []string
	for _, row := range all.Rows() {
		if at, ok := row.Value.(time.Time); ok {
			row.Value = s.when(at)
		}
		if slices.Contains(names, row.Name) || len(names) == 0 {
			said = append(said, fmt.Sprint(row.Name, " ", row.Value))
		}
	}
	if err != nil {
		return "", err
	}
	return strings.Join(said, "\n"), err
}

// json is what programs read of the list and the counters.
func (s *scene) json() (string, error) {
	list, err := s.operator().List(context.Background())
	stats, err2 := s.operator().Stats(context.Background())
	text, err3 := json.Marshal([]any{list, stats})
	return string(text), errors.Join(err, err2, err3)
}

func (s *scene) free(worker uint64) (string, error) {
	f, err := s.operator().Release(context.Background(), worker)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("of %s, expires %v until %v", f.Owner, s.when(f.ExpireAt), s.when(f.Until)), nil
}

func (s *scene) replicas() (string, error) {
	r, err := s.operator().Replicas(context.Background())
	said := fmt.Sprint("needed ", r.Needed)
	for _, c := range r.Connected {
		said += fmt.Sprintf(", %s %s", c.Addr, c.State)
	}
	return said, err
}

func (s *scene) resetClock() (string, error) {
	r, err := s.operator().ResetClock(context.Background())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("now %v, was %v, waits until %v", s.when(r.Now), s.when(r.Was), s.when(r.WaitsUntil)), nil
}

func (s *scene) hear(channel string) {
	s.channel = s.server.Client().Subscribe(context.Background(), channel)
	s.t.Cleanup(func() { s.channel.Close() })
	if _, err := s.channel.Receive(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// heard is the next message without its name of the daemon.
func (s *scene) heard() string {
	m, err := s.channel.ReceiveMessage(context.Background())
	if err != nil {
		return err.Error()
	}
	_, text, _ := strings.Cut(m.Payload, ":")
	return text
}

func (s *scene) lateLock(name string, worker int, by time.Duration) {
	s.daemons[name] = s.daemon(func(c *Config) {
		c.Now = func() int64 {
			if s.server.Do("EXISTS", s.rausKey(worker)).(int64) == 1 {
				return s.now() + by.Milliseconds()
			}
			return s.now()
		}
	})
}

// lanes has the first daemon extend what all of them hold.
func (s *scene) lanes(names ...string) string {
	var held []workerid.Grant
	for _, name := range names {
		held = append(held, s.daemons[name].grant)
	}
	ctx, cancel := within(redislink.Patience)
	defer cancel()
	results, err := s.daemons[names[0]].Extend(ctx, held)
	if err != nil {
		return s.why(err)
	}
	var said []string
	for _, r := range results {
		if r.Err != nil {
			said = append(said, s.why(r.Err))
		} else {
			said = append(said, s.window(r.Grant))
		}
	}
	return strings.Join(said, "\n")
}

// lockOf says who has the lock of raus's clients, and for how long, in begun minutes.
func (s *scene) lockOf(worker int) string {
	holder, _ := s.server.Do("GET", s.rausKey(worker)).(string)
	left, _ := s.server.Do("PTTL", s.rausKey(worker)).(int64)
	if strings.HasPrefix(holder, "katsubushi/") {
		holder = "a daemon's" + strings.Repeat(", new", strings.Count(holder, "?"))
	}
	return fmt.Sprintf("%s for %d min", cmp.Or(holder, "nobody's"), (left+59_999)/60_000)
}

func (w *world) rausKey(worker int) string { return fmt.Sprintf("%s:id:%d", w.config.HoldRaus, worker) }
