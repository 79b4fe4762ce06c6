package redislink

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A suspect master is looked for again, but not at every call; another Sentinel is asked first.
func TestASuspectMasterIsLookedForAgain(t *testing.T) {
	server := redistest.Start(t)
	sentinels := redistest.Sentinels(t, 2, 0, server.Addr())
	target, err := Parse("redis+sentinel://"+sentinels[0].Addr()+","+sentinels[1].Addr()+"/main", "", "ns")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWire(target, "key", false)
	defer w.Close()
	link := func(suspect bool) *Link {
		t.Helper()
		l, err := Take(context.Background(), w, func(l *Link) (*Link, func(), error) {
			if suspect {
				w.Suspect()
			}
			return l, nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, asked := link(false), w.Target.seeds[0]
	w.opened = time.Now().Add(-trust)
	if link(true) != first {
		t.Error("a link that is old was dropped")
	}
	second := link(false)
	if second == first || w.Target.seeds[0] == asked {
		t.Errorf("the suspect was used again; %s was asked, and then %s", asked, w.Target.seeds[0])
	}
	w.opened = time.Now().Add(-trust)
	if link(false) != second {
		t.Error("a link that nobody suspects was dropped")
	}
	w.opened = time.Now().Add(time.Hour) // it is new
	if link(true) != second || link(false) != second {
		t.Error("a link that is new was dropped")
	}
}

// A server that has stopped is given up, sooner if it does not even take what is asked.
func TestNoServerIsWaitedForForever(t *testing.T) {
	for takes, want := range map[bool]time.Duration{true: Patience, false: DialTimeout} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			if takes {
				go io.Copy(io.Discard, theirs)
			}
			o := plain(&goredis.Options{})
			o.Dialer = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
			began, l := time.Now(), newLink(o)
			if err := l.greet(t.Context(), false); err == nil || time.Since(began) != want {
				t.Errorf("takes %v: %v after %v", takes, err, time.Since(began))
			}
			l.Close()
			theirs.Close()
		})
	}
}
