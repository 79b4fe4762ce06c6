package stores

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

// later is a store whose daemons confirm after some time.
type later struct {
	counter.Admin
	at  time.Time
	err error // of questions after the first
	n   *int
}

func (l later) Behind(context.Context) ([]counter.Daemon, error) {
	if *l.n++; *l.n > 1 && l.err != nil {
		return nil, l.err
	}
	if time.Now().Before(l.at) {
		return []counter.Daemon{{Name: "host/7", Silent: 3 * time.Second}}, nil
	}
	return nil, nil
}

func TestConfirm(t *testing.T) {
	late := "daemon host/7 has not confirmed it, and was last heard of 3s ago: make sure that it has ended"
	for _, c := range []struct {
		after time.Duration
		err   error
		took  time.Duration // at most
		want  string
	}{
		{0, nil, 0, ""},
		{1100 * time.Millisecond, nil, 1200 * time.Millisecond, ""},
		{time.Hour, nil, confirmTimeout, late},
		{time.Hour, errors.New("gone"), confirmTimeout, late}, // what it said last
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			lines := Confirm(t.Context(), later{at: begin.Add(c.after), err: c.err, n: new(int)})
			took := time.Since(begin)
			if strings.Join(lines, "\n") != c.want || took > c.took || took < min(c.after, c.took) {
				t.Errorf("after %v: %q, which took %v", c.after, lines, took)
			}
		})
	}
	db := memcounter.NewDatabase()
	for err, want := range map[error]int{nil: 0, counter.ErrNoRoll: 0, errors.New("no disk"): 1} {
		db.LateErr = err
		if lines := Confirm(t.Context(), db.Open()); len(lines) != want {
			t.Errorf("%v: %q", err, lines)
		}
	}
}

// What the command answers depends on who has confirmed.
func TestAfterRaise(t *testing.T) {
	all, some := Counters{}.AfterRaise(nil), Counters{}.AfterRaise([]string{"daemon x"})
	if !strings.HasPrefix(all, "is issued any more") || strings.Contains(some, "issued any more") {
		t.Errorf("%s\n%s", all, some)
	}
	// In files a daemon of an earlier version does not sign in, so it is not waited for.
	shared := Counters{URL: "etcd://h"}.AfterRaise(nil)
	if !strings.Contains(all, "an earlier version") || strings.Contains(shared, "an earlier version") ||
		strings.Contains(all, "every daemon that runs has confirmed it") {
		t.Errorf("%s\n%s", all, shared)
	}
}
