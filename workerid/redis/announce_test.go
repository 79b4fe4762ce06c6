package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// announce makes an announcement, and peers reads all. They have a minute, on a machine that may be busy.
func (d *daemon) announce(name, text string) error {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	return d.Announce(ctx, name, text)
}

func (d *daemon) wantPeers(when string, want map[string]string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	var got map[string]string
	err := again(late, func() (err error) {
		got, err = d.Peers(ctx)
		return err
	})
	if err != nil || !maps.Equal(got, want) {
		d.Errorf("%s: %v, %v, want %v", when, got, err, want)
	}
}

// listing is Listing, and again while Redis is late.
func (d *daemon) listing(known []string) (all map[string]string, left int, err error) {
	err = again(late, func() (err error) {
		all, left, err = d.Listing(d.Context(), known)
		return err
	})
	return all, left, err
}

// announced announces one and lists all, again if that took so long that the announcement may have expired.
func (d *daemon) announced(name string, known []string) (all map[string]string, left int, err error) {
	d.Helper()
	for range 20 {
		began := time.Now()
		d.mustAnnounce(name, "one")
		all, left, err = d.listing(known)
		if err != nil || all[name] != "" || time.Since(began) < announcementLife/2 {
			break
		}
	}
	return all, left, err
}

func (d *daemon) mustAnnounce(name, text string) {
	d.Helper()
	d.server.Until("it is announced", func() bool {
		err := d.announce(name, text)
		if err != nil && !late(err) {
			d.Fatal(err)
		}
		return err == nil
	})
}

// TestAnnouncements: a key for each daemon, which ends by itself, is replaced and deleted. The pool's own keys stay
// what they are.
func TestAnnouncements(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	a, b := w.daemon(), w.daemon()
	a.wantPeers("at first", nil)
	a.mustAnnounce("d.a", "one")
	b.mustAnnounce("d.b", "two")
	a.mustAnnounce("d.a", "three")
	a.wantPeers("both", map[string]string{"d.a": "three", "d.b": "two"})
	for _, key := range []string{"peers:d.a", "peers:d.b"} {
		if ms := w.server.Do("PTTL", w.key(key)).(int64); ms <= 0 || ms > announcementLife.Milliseconds() {
			t.Errorf("%s expires in %d ms", key, ms)
		}
	}
	b.mustAnnounce("d.b", "")
	a.wantPeers("one has gone", map[string]string{"d.a": "three"})
	w.server.Do("PEXPIRE", w.key("peers:d.a"), 1)
	w.server.Until("it has expired", func() bool { return w.server.Do("EXISTS", w.key("peers:d.a")).(int64) == 0 })
	a.wantPeers("one was killed", map[string]string{})
	b.mustAnnounce("d.c", "four")
	if n := w.server.Do("ZCARD", w.key("peers")).(int64); n != 2 {
		t.Errorf("%d names, though one has expired only now", n)
	}
	w.advance((forgotten + announcementLife).Milliseconds() + 1)
	b.mustAnnounce("d.b", "five")
	if n := w.server.Do("ZCARD", w.key("peers")).(int64); n != 1 {
		t.Errorf("%d names after an hour", n)
	}
	for _, key := range w.server.Do("KEYS", w.key("*")).([]any) {
		if name := strings.TrimPrefix(key.(string), w.key("")); !strings.HasPrefix(name, "peers") &&
			!strings.Contains(" ids clients stats hw meta ", " "+name+" ") {
			t.Errorf("there is a key %s", key)
		}
	}
	if err := a.announce(strings.Repeat("x", maxAnnouncedName+1), "text"); err == nil {
		t.Error("a long name was announced")
	}
	if err := a.announce("d.a", strings.Repeat("x", maxAnnouncement+1)); err == nil {
		t.Error("a long text was announced")
	}
}

// TestAnnouncementsInACluster are on the node that has the pool.
func TestAnnouncementsInACluster(t *testing.T) {
	w, nodes := newCluster(t, 2)
	w.init(New)
	a := w.daemon()
	a.mustAnnounce("d.a", "one")
	a.wantPeers("its own", map[string]string{"d.a": "one"})
	for _, key := range []string{"peers", "peers:d.a"} {
		if nodes[0].Do("EXISTS", w.key(key)).(int64) != 1 {
			t.Errorf("%s is not on the node of the pool", key)
		}
	}
}

// TestAFailOverLosesAnnouncements until they are written again.
func TestAFailOverLosesAnnouncements(t *testing.T) {
	p := newPair(t)
	p.init(New)
	a := p.daemon()
	p.catchUp()
	p.replication.Requests(redistest.Drop)
	p.replication.Answers(redistest.Drop)
	a.mustAnnounce("d.a", "one")
	p.failOver()
	p.server.Until("the new master is found", func() bool { return a.announce("d.a", "one") == nil })
	a.wantPeers("after the fail-over", map[string]string{"d.a": "one"})
	if p.replica.Do("EXISTS", p.key("peers:d.a")).(int64) != 1 {
		t.Error("it is not on the new master")
	}
}

// TestAUserWithoutTheRight cannot announce, is told when to try again, and leases as before: the ACL of earlier
// versions' documentation has neither SET nor GETRANGE.
func TestAUserWithoutTheRight(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	w.server.Do("ACL", "SETUSER", "old", "on", ">secret", "~"+w.namespace+":*", "+evalsha", "+eval", "+info", "+time",
		"+wait",
		"+exists", "+hget", "+hset", "+hsetnx", "+hmget", "+hgetall", "+hdel", "+hexists", "+hincrby", "+zadd", "+zrem",
		"+zscore", "+zrange", "+zrangebyscore", "+client|id", "+hello", "+select", "+ping")
	w.config.URL = strings.Replace(w.config.URL, "redis://", "redis://old:secret@", 1)
	d := w.daemon()
	d.acquire()
	before := d.wire.Link
	err := d.announce("d.a", "one")
	var hint interface{ RetryAfter() time.Duration }
	if !errors.As(err, &hint) || hint.RetryAfter() < time.Minute || !strings.Contains(err.Error(), "'set'") {
		t.Errorf("%v", err)
	}
	wantReason(t, err, "NOPERM, the user needs the right to run 'set'")
	d.extend()
	if d.wire.Link != before {
		t.Error("the connection was given up")
	}
	w.server.Do("ACL", "SETUSER", "old", "+set", "+getrange")
	d.mustAnnounce("d.a", "one")
	d.wantPeers("with the rights", map[string]string{"d.a": "one"})
}

// wantReason looks at what anybody may read of a refusal: it does not name the user.
func wantReason(t *testing.T, err error, want string) {
	t.Helper()
	var r interface{ Reason() string }
	if !errors.As(err, &r) || r.Reason() != want {
		t.Errorf("the reason of %v is not %s", err, want)
	}
}

// TestForeignKeysInThePlaceOfAnnouncements: what others write there costs little, and the lease nothing.
func TestForeignKeysInThePlaceOfAnnouncements(t *testing.T) {
	w := newWorld(t)
	w.init(New)
	d := w.daemon()
	d.acquire()
	d.mustAnnounce("d.a", "one")
	long := strings.Repeat("x", 1<<20)
	w.server.Do("SET", w.key("peers:d.long"), long)
	w.server.Do("ZADD", w.key("peers"), 1e18, "d.long", 1e18, strings.Repeat("n", 1000), 1e18, "d.none")
	d.wantPeers("a long text is cut off", map[string]string{"d.a": "one", "d.long": long[:maxAnnouncement+1]})
	args := []any{"ZADD", w.key("peers")}
	for i := range 3 * maxAnnounced {
		args = append(args, 1e18, fmt.Sprint("d.", i))
	}
	w.server.Do(args...)
	w.server.Do("LPUSH", w.key("peers:d.7"), "of another type")
	if all, left, err := d.announced("d.a", nil); err != nil || len(all) != 2 || all["d.a"] != "one" || left != 0 {
		t.Errorf("behind names without a text: %d entries, %d left out, %v", len(all), left, err)
	}
	args, names := []any{"MSET"}, []any{"ZADD", w.key("peers")}
	for i := range maxAnnounced + 100 {
		args = append(args, w.key(fmt.Sprint("peers:d.fake", i)), "text")
		names = append(names, 2e18, fmt.Sprint("d.fake", i))
	}
	w.server.Do(args...)
	w.server.Do(names...)
	if all, left, err := d.listing(nil); err != nil || len(all) != maxAnnounced || left < 100 {
		t.Errorf("behind texts: %d entries, %d left out, %v", len(all), left, err)
	}
	for range 10 {
		if all, _, err := d.announced("d.a", []string{"d.none", "d.a"}); err != nil || all["d.a"] != "one" {
			t.Errorf("who is known is not among %d entries, %v", len(all), err)
		}
	}
	for looks := 1; ; looks++ {
		d.mustAnnounce("d.a", "one")
		if all, _, err := d.listing(nil); err != nil || looks > 1000 { // half of them are read
			t.Fatalf("who is not known is not among %d entries, %v", len(all), err)
		} else if all["d.a"] != "" {
			break
		}
	}
	args = []any{"ZADD", w.key("peers")}
	for i := range maxNames {
		args = append(args, 3e18, fmt.Sprint("d.none", i))
	}
	w.server.Do(args...)
	if all, left, err := d.listing(nil); err != nil || len(all) != 0 || left == 0 {
		t.Errorf("behind too many names: %d entries, %d left out, %v", len(all), left, err)
	}
	w.server.Do("SET", w.key("peers"), "of another type")
	if err := d.announce("d.a", "two"); err == nil {
		t.Error("announced in a key of another type")
	}
	_, err := d.Peers(t.Context())
	wantReason(t, err, "WRONGTYPE, another program has written its key")
	for text, want := range map[string]string{
		"NOPERM No permissions to access a key": "NOPERM, the user needs the right to use the keys of its namespace",
		"LOADING Redis":                         "LOADING", "<b>x": "the log says why",
	} {
		wantReason(t, &refused{errors.New(text)}, want)
	}
	d.extend()
}
