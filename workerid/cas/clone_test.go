package cas

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A clone has every field, and what either does with it the other does not see.
func TestClone(t *testing.T) {
	make := func() *Session {
		return &Session{
			conn: "c", sent: map[string]uint64{"c": 3}, conns: []string{"c"},
			readings: []reading{{at: time.Second, texts: map[uint64]string{1: "x"}}},
			lanes:    map[laneKey]lane{{"o", 1}: {unanswered: make([]pool.Sent, 1, 9)}}, owners: map[string]bool{"o": true},
			asked: map[string][]pool.Sent{"o": make([]pool.Sent, 1, 9)}, drains: make([]drain, 1, 9),
			left: map[uint64]bool{1: true}, published: map[string]publication{"n": {}},
		}
	}
	s := make()
	want := copied.Of(s)
	c := s.Clone()
	if !reflect.DeepEqual(c, want) {
		t.Fatalf("%+v instead of %+v", c, want)
	}
	k := laneKey{"o", 1}
	c.sent["c"], c.owners["p"], c.left[2], c.published["m"] = 4, true, true, publication{}
	c.conns, c.readings = append(c.conns, "d"), append(c.readings, reading{})
	c.drains[0].hi, c.readings[0].at = 7, 0
	c.lanes[k] = lane{unanswered: append(c.lanes[k].unanswered, pool.Sent{Worker: 5})}
	c.asked["o"] = append(c.asked["o"], pool.Sent{Worker: 5})
	if !reflect.DeepEqual(s, want) {
		t.Errorf("the original is %+v now", s)
	}
	if n := s.lanes[k].unanswered[:2]; n[1].Worker != 0 {
		t.Error("a lane's writes share an array")
	}
}

// What a Session remembers of writes without an answer, and of request ids, has an end.
func TestASessionForgets(t *testing.T) {
	var s Session
	for i := range rememberedConns + 2 {
		s.conn = strconv.Itoa(i)
		s.asks("o", pool.Sent{Record: pool.Record{Token: s.token()}})
	}
	if a := s.asked["o"]; len(a) != remembered || a[remembered-1].Record.Token != s.conn+".1" {
		t.Errorf("%d acquisitions, the last is %+v", len(a), a[len(a)-1])
	}
	for range 10 {
		if token := s.token(); !s.mine(token) {
			t.Errorf("%s is another's", token)
		}
	}
	for token, want := range map[string]bool{"1.1": false, "2.1": true, "2.2": false, "2.0": false, "2.x": false,
		"2": false} {
		if s.mine(token) != want {
			t.Errorf("%s: %v", token, !want)
		}
	}
}

// Whoever adds a field to what a Session knows decides whether Visit must show it.
func TestVisitKnowsEveryField(t *testing.T) {
	known := map[reflect.Type][]string{
		reflect.TypeFor[Session](): {
			"Driver", "Free", "latest", "Rules", "Now", "Pool", "AutoInit", "Path", "Addr", "Announced", // settings
			"conn", "session", "metaText", "readings", "lanes", "owners", "asked", "drains", "left", "raising", "raiseHi",
			"raiseConn", "published",
			"sent", "conns", // by Mine
			"meta", // by metaText
			"ahead", "holders",
		},
		reflect.TypeFor[lane](): {"rec", "epoch", "acked", "unanswered", "session", "unheard", "ended"},
	}
	for of, names := range known {
		for i := range of.NumField() {
			if name := of.Field(i).Name; !slices.Contains(names, name) {
				t.Errorf("%v.%s: does it decide how a Session goes on? See Visit and Clone", of, name)
			}
		}
	}
}
