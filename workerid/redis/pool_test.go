package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestListAndStats(t *testing.T) {
	w := newWorld(t)
	if _, err := w.pool().List(t.Context()); err == nil {
		t.Error("listed no pool")
	}
	w.init(New)
	w.advance(1)
	d := w.daemon()
	d.acquire()
	w.advance(10000)
	d.extend()
	l, err := w.pool().List(t.Context())
	if err != nil || len(l) != 3 || l[0].Worker != 2 || l[1].Worker != 3 || l[0].Using || l[0].TTL != 0 ||
		l[0].ExpireAt.Unix() != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	// yaraus's fields are always there, and no time that there is not.
	b, err := json.Marshal(l[0])
	if err != nil || string(b) != `{"id":2,"client_id":"","expire_at":"1970-01-01T00:00:00Z","using":false,"ttl":0}` {
		t.Errorf("%s, %v", b, err)
	}
	want := workerid.Lease{
		Worker: 1, Owner: d.owner, ExpireAt: time.UnixMilli(w.now() + lease).UTC(), Using: true, TTL: 60,
		From: time.UnixMilli(d.grant.Lo).UTC(), Until: time.UnixMilli(d.grant.Hi).UTC(),
	}
	if l[2] != want {
		t.Errorf("%+v, not %+v", l[2], want)
	}
	s, err := w.pool().Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s != (Stats{
		ClientIDCount: 1, GetIDCount: 1, GetIDSuccess: 1, ExtendTTLCount: 1, ExtendTTLSuccess: 1, UnusingIDs: 2, UsingIDs: 1,
		UsingTTLMax: 60, UsingTTLMid: 60,
		UsingTTLMin: 60, Min: 1, Max: 3, Fingerprint: w.config.Fingerprint(), Held: 1,
		WaitsUntil: time.UnixMilli(startOfTime).UTC(),
	}) {
		t.Errorf("%+v", s)
	}
	if b, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ // yaraus's
		"client_id_count", "client_get_id_count", "client_get_id_success", "get_id_no_available_id", "extend_ttl_count",
		"extend_ttl_success",
		"extend_ttl_ownership_error", "extend_ttl_expire_warning", "unusing_ids", "using_ids", "using_ttl_max",
		"using_ttl_mid", "using_ttl_min",
	} {
		if !strings.Contains(string(b), `"`+name+`":`) {
			t.Errorf("%s is missing in %s", name, b)
		}
	}
}

// Times that somebody else wrote, and that nobody will see, can be printed.
func TestListAndStatsOfStrangeTimes(t *testing.T) {
	w := newWorld(t)
	w.holders(1)
	w.server.Do("ZADD", w.key("ids"), "+inf", "A2", "-inf", "A3")
	w.server.Do("HSET", w.key("meta"), "floor", strings.Repeat("9", 15), "seen", w.now()+7_000_000_000_000)
	l, err := w.pool().List(t.Context())
	if err != nil || l[0].ExpireAt.Unix() != 0 || l[0].Using || l[2].ExpireAt.Year() != 9999 || !l[2].Using {
		t.Errorf("%+v, %v", l, err)
	}
	s, err := w.pool().Stats(t.Context())
	if err != nil || s.WaitsUntil.Year() != 9999 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := json.Marshal([]any{l, s}); err != nil {
		t.Error(err)
	}
	if err := w.daemon().tryAcquire(redislink.Patience); !errors.Is(err, ErrClockBack) ||
		!strings.Contains(err.Error(), "by 1944444h26m40s") {
		t.Error(err)
	}
	if r, err := w.pool().ResetClock(t.Context()); err != nil || r.Was.Year() != 2251 {
		t.Errorf("%+v, %v", r, err)
	}
}

// An operator ends a lease. Its holder may live, and goes on to the end of its window: the next one
// starts after it.
func TestOperatorsRelease(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	d := w.holders(1)[0]
	next := w.daemon()
	w.want(next.tryAcquire(redislink.Patience), workerid.ErrNoID)
	f, err := w.pool().Release(t.Context(), 1)
	if err != nil || f.Owner != d.owner || f.Until.UnixMilli() != d.grant.Hi || f.ExpireAt.UnixMilli() != d.grant.Hi {
		t.Fatalf("%+v, %v", f, err)
	}
	w.want(d.tryExtend(redislink.Patience), workerid.ErrLost)
	w.clock.Store(d.grant.Hi)
	w.want(next.tryAcquire(redislink.Patience), workerid.ErrNoID)
	w.advance(1)
	if next.acquire(); next.grant.Lo != d.grant.Hi+1 {
		t.Errorf("%+v after %+v", next.grant, d.grant)
	}
	w.advance(lease)
	next.extend()
	if _, err := w.pool().Release(t.Context(), 7); err == nil {
		t.Error("released what there is not")
	}
}

// A holder that does not hear of it, and after a loss proves by its window that nobody else can
// have the worker id, is right.
func TestOperatorsReleaseBeforeALoss(t *testing.T) {
	w := newWorld(t)
	w.config.Max = 1
	d, next := w.holders(1)[0], w.daemon()
	if _, err := w.pool().Release(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	next.tryAcquire(redislink.Patience)
	w.server.Do("FLUSHALL")
	d.extend()
}

func TestOtherSettings(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	if got := w.init(New); got != Present {
		t.Errorf("init: %s", got)
	}
	w.config.Lease, w.config.Max = 2*workerid.DefaultLease, 5
	_, err := w.pool().initialise(t.Context(), New)
	w.want(err, workerid.ErrForeignPool)
	_, err = w.pool().initialise(t.Context(), Replace)
	w.want(err, ErrHeld)
	if err := d.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	if got := w.init(Replace); got != Waiting {
		t.Errorf("init: %s", got)
	}
	w.want(d.tryAcquire(redislink.Patience), workerid.ErrForeignPool)
	loss := w.now()
	n := w.daemon()
	w.clock.Store(loss + long + lease)
	w.want(n.tryAcquire(redislink.Patience), workerid.ErrNoID) // the longer lease counts
	w.advance(1)
	g, err := n.Acquire(context.Background(), workerid.Request{Owner: "n", Min: 1, Max: 5})
	if err != nil || g.Hi != w.now()+2*lease {
		t.Errorf("%+v, %v", g, err)
	}
	if l, err := w.pool().List(t.Context()); err != nil || len(l) != 5 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := n.Release(t.Context(), g, w.now()); err != nil {
		t.Fatal(err)
	}
	w.advance(1)
	w.config.Lease = 0
	w.init(Replace)
	w.advance(2*lease + eps + 1)
	n = w.daemon()
	n.acquire()
	w.server.Do("DEBUG", "CHANGE-REPL-ID") // a new history
	w.waits(w.daemon(), w.now())           // and the longer lease does not count any more
}

// Where a pool was lost, init listens for daemons that still hold worker ids, and leaves the making
// to them.
func TestInitListens(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	w.server.Do("FLUSHALL")
	type outcome struct {
		result string
		err    error
	}
	calls := func() string {
		_, line, _ := strings.Cut(fmt.Sprint(w.server.Do("INFO", "commandstats")), "cmdstat_eval:")
		return line[:strings.IndexByte(line, ',')]
	}
	before := calls()
	done := make(chan outcome)
	p := w.pool()
	go func() {
		result, err := p.Init(context.Background(), New)
		done <- outcome{result, err}
	}()
	w.server.Until("it listens", func() bool { return calls() != before })
	d.extend()
	if o := <-done; o.err != nil || o.result != Present {
		t.Errorf("%+v", o)
	}
	w.want(w.daemon().tryAcquire(redislink.Patience), workerid.ErrNoID)
}
