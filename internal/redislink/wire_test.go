package redislink

import (
	"context"
	"testing"
	"time"

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
