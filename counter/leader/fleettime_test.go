package leader

import (
	"testing"
	"time"
)

// A timekeeper is a Machine of a daemon whose clock is skewed, on a board that others renew too.
type timekeeper struct {
	*Machine
	t    *testing.T
	b    *board
	now  int64
	skew time.Duration
}

const unix = int64(1_790_000_000 * time.Second)

func newTimekeeper(t *testing.T, skew time.Duration) *timekeeper {
	m := NewMachine(Node{ID: "me", Redis: "me:1"})
	for g := range Groups {
		m.SetTimed(Groups + g)
	}
	return &timekeeper{Machine: m, t: t, b: newBoard(), now: int64(time.Hour), skew: skew}
}

// peer has another daemon write its node key, with its time.
func (k *timekeeper) peer(id, address string, skew time.Duration) {
	k.b.revision++
	k.b.nodes[id] = NodeKey{
		Node: Node{ID: id, Redis: address}, Revision: k.b.revision,
		Stamp: (unix + k.now + int64(skew)) / int64(time.Millisecond),
	}
}

// pass lets time pass, in which others renews what the other daemons have.
func (k *timekeeper) pass(d time.Duration, others func()) {
	for end := k.now + int64(d); k.now < end; k.now += int64(100 * time.Millisecond) {
		if others != nil && k.now/int64(100*time.Millisecond)%10 == 0 {
			others()
		}
		k.Tell(k.now, unix+k.now+int64(k.skew))
		if c, _ := k.Next(k.now); c != nil {
			done, s := k.b.commit(*c)
			k.Answer(k.now, done, s, nil)
		}
		for _, e := range k.Events() {
			if !e.Begins {
				k.Ended(e.Group)
			}
		}
	}
}

// apart returns how far what counts as the time is from the true one.
func (k *timekeeper) apart() time.Duration {
	offset, known := k.View().Time(unix + int64(k.skew))
	if !known {
		k.t.Fatal("the time is not known")
	}
	return time.Duration(offset - unix).Round(100 * time.Millisecond)
}

// leading returns how many groups of timestamps it leads.
func (k *timekeeper) leading() (n int) {
	for g := range Groups {
		if k.groups[Groups+g].phase == leading {
			n++
		}
	}
	return n
}

// The lower median is the fleet's time, and counts downwards only.
func TestTheMedianCounts(t *testing.T) {
	for _, c := range []struct {
		name             string
		own, first, next time.Duration
		want             time.Duration
		leads            bool
	}{
		{"all right", 0, 0, 0, 0, true},
		{"a little ahead", 500 * time.Millisecond, 0, 0, 500 * time.Millisecond, true},
		{"ahead", time.Hour, 0, 0, MaxSkew, false},
		{"behind", -time.Hour, 0, 0, -time.Hour, false},
		{"another is ahead", 0, time.Hour, 0, 0, true},
		{"another is behind", 0, -time.Hour, 0, 0, true},
		{"all differ", 0, time.Hour, -time.Hour, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTimekeeper(t, c.own)
			k.pass(8*time.Second, func() {
				k.peer("a", "a:1", c.first)
				k.peer("b", "b:1", c.next)
			})
			got := k.apart() // a stamp is seen up to a look late
			if got > c.want || got < c.want-look || k.leading() > 0 != c.leads {
				t.Errorf("%v from the time, leads %d groups", got, k.leading())
			}
			if wrong := k.View().Apart != 0; wrong == c.leads {
				t.Errorf("its clock is %v apart", k.View().Apart)
			}
		})
	}
}

// A daemon that was restarted, again and again, has one vote, and this daemon's own earlier lives have none.
func TestRestartsDoNotVoteTwice(t *testing.T) {
	k := newTimekeeper(t, 0)
	lives := func() {
		for _, id := range []string{"a1", "a2", "a3"} {
			k.peer(id, "a:1", -time.Hour)
		}
		for _, id := range []string{"me1", "me2", "me3"} {
			k.peer(id, "me:1", -time.Hour)
		}
		k.peer("b", "b:1", 0)
	}
	k.pass(8*time.Second, lives)
	if got := k.apart(); got != 0 || k.leading() == 0 {
		t.Errorf("%v from the time, leads %d", got, k.leading())
	}
}

// What a daemon stamped that does not renew any more is no vote: not when it was there already, nor after TTL.
func TestOldStampsDoNotCount(t *testing.T) {
	k := newTimekeeper(t, 0)
	k.peer("a", "a:1", -time.Hour)
	k.peer("b", "b:1", -time.Hour)
	k.pass(2*time.Second, nil)
	if got := k.apart(); got != 0 {
		t.Errorf("%v from the time", got)
	}
	k.pass(2*time.Second, func() {
		k.peer("a", "a:1", -time.Hour)
		k.peer("b", "b:1", -time.Hour)
	})
	if got := k.apart(); got > -time.Minute {
		t.Errorf("%v from the time, of two that say another", got)
	}
	k.pass(TTL+time.Second, nil)
	if got := k.apart(); got != 0 {
		t.Errorf("%v from the time, of two that have ended", got)
	}
}

// At a cold start a daemon claims timestamps once it has seen another's time, or after 3 s.
func TestAColdStart(t *testing.T) {
	for _, others := range []bool{false, true} {
		k := newTimekeeper(t, 0)
		renew := func() {
			if others {
				k.peer("a", "a:1", 0)
			}
		}
		k.pass(2500*time.Millisecond, renew)
		if leads := k.leading() > 0; leads != others {
			t.Errorf("others %v: leads %v", others, leads)
		}
		k.pass(time.Second, renew)
		if k.leading() == 0 {
			t.Errorf("others %v: leads nothing", others)
		}
	}
}

// A leader whose clock goes wrong hands timestamps over, but no other group; and not for a moment's sake.
func TestAWrongClockLeadsNoTimestamps(t *testing.T) {
	k := newTimekeeper(t, 0)
	others := func() {
		k.peer("a", "a:1", 0)
		k.peer("b", "b:1", 0)
	}
	k.pass(8*time.Second, others)
	if k.leading() != Groups {
		t.Fatal(k.leading())
	}
	k.skew = time.Hour
	k.pass(2*time.Second, others)
	k.skew = 0
	k.pass(2*time.Second, others)
	if k.leading() != Groups || k.stats.Handed != 0 {
		t.Fatal("handed over at once")
	}
	k.skew = time.Hour
	k.pass(6*time.Second, others)
	if k.leading() != 0 || k.led() != Groups || k.stats.Handed != Groups ||
		k.View().Apart.Round(time.Minute) != time.Hour {
		t.Error(k.leading(), k.stats.Handed, k.View().Apart)
	}
	k.skew = 0
	k.pass(8*time.Second, others)
	if k.leading() != Groups || k.View().Apart != 0 {
		t.Error(k.leading(), k.View().Apart)
	}
}

// A daemon that stamps no time is of a release that knows no timestamps: it is no heir of theirs, and where there is
// no other one a daemon leads on. Groups that have none are not led.
func TestDaemonsThatKnowNoTimestamps(t *testing.T) {
	k := newTimekeeper(t, 0)
	k.timed[Groups+7] = false
	old := func() {
		k.b.revision++
		k.b.nodes["a"] = NodeKey{Node: Node{ID: "a", Redis: "a:1"}, Revision: k.b.revision}
	}
	k.pass(8*time.Second, old)
	if k.leading() != Groups-1 || k.b.leaders[Groups+7].ID != "" {
		t.Fatal(k.leading())
	}
	if err := k.Demote(k.now, Groups+3); err != ErrAlone {
		t.Error(err)
	}
	if err := k.Demote(k.now, 3); err != nil {
		t.Error(err)
	}
	k.Stop(k.now)
	k.pass(4*time.Second, old)
	for g, l := range k.b.leaders {
		if heir := map[bool]string{false: "a"}[Timed(g)]; l.ID != "" || l.Heir != heir {
			t.Errorf("group %d: %+v", g, l)
		}
	}
}
