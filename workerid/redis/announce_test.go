package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// announce makes an announcement, and peers reads all. They have a minute, on a machine that may be busy.
func (d *daemon) announce(name, text string) error {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	return d.Announce(ctx, name, text)
}

// listing is Listing, and again while Redis is late.
func (d *daemon) listing(known []string) (all map[string]string, left int, err error) {
	all, err = again(late, func() (all map[string]string, err error) {
		all, left, err = d.Listing(d.Context(), known)
		return all, err
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
	d.mustExtend()
	if d.wire.Link != before {
		t.Error("the connection was given up")
	}
	w.server.Do("ACL", "SETUSER", "old", "+set", "+getrange")
	d.mustAnnounce("d.a", "one")
	if all, _, err := d.listing(nil); err != nil || all["d.a"] != "one" {
		t.Errorf("with the rights: %v, %v", all, err)
	}
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
	if all, _, err := d.listing(nil); err != nil || len(all) != 2 || all["d.long"] != long[:maxAnnouncement+1] {
		t.Errorf("a long text is cut off: %d, %v", len(all), err)
	}
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
	if err := d.announce(strings.Repeat("x", maxAnnouncedName+1), "text"); err == nil {
		t.Error("a long name was announced")
	}
	if err := d.announce("d.a", long[:maxAnnouncement+1]); err == nil {
		t.Error("a long text was announced")
	}
	for text, want := range map[string]string{
		"NOPERM No permissions to access a key": "NOPERM, the user needs the right to use the keys of its namespace",
		"LOADING Redis":                         "LOADING", "<b>x": "the log says why",
	} {
		wantReason(t, &refused{errors.New(text)}, want)
	}
	d.mustExtend()
}
