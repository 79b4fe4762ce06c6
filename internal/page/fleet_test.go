package page

import (
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/fleet"
)

// company is a fleet in which each fact is another one.
func company() *fleet.Roster {
	ms := func(d time.Duration) *fleet.Milliseconds { return (*fleet.Milliseconds)(&d) }
	since := func(d time.Duration) *time.Time {
		t := noon.Add(-d)
		return &t
	}
	six, three := 6, 3
	return &fleet.Roster{More: 17, Unreadable: 2, Members: []fleet.Member{
		{Addr: "10.0.0.7:11212", Self: true, State: fleet.Ready, Workers: []uint64{501, 502, 503},
			Version: "3.4.5",
			Left:    ms(52 * time.Second), Groups: &six, Since: since(26 * time.Hour)},
		{Addr: "10.0.0.8:11212", State: fleet.Ready, Workers: []uint64{4}, Version: "3.4.6",
			Ahead: ms(-400 * time.Millisecond), Left: ms(51 * time.Second), Groups: &three,
			Since: since(time.Minute), Page: "http://10.0.0.8:8081/"},
		{Addr: "10.0.0.9:11212", State: fleet.NotReady, Version: "3.4.7", Ahead: ms(12 * time.Second),
			Left: ms(-time.Second)},
		{Addr: "10.0.0.10:11212", State: "no answer", Workers: []uint64{9}},
		{Addr: "10.0.0.11:11212", State: fleet.Asking},
		{State: fleet.NotReady},
	}}
}

// TestTheFleetIsShown compares it with testdata/fleet.*.golden.
func TestTheFleetIsShown(t *testing.T) {
	s := newScene()
	s.Fleet = company()
	html := section(t, s.see("/", browser), `<section id="fleet"`, "</section>")
	inside := strings.TrimSuffix(strings.TrimPrefix(html, `<section id="fleet"`), "</section>")
	golden(t, "fleet.html", strings.ReplaceAll(inside, "<t", "\n<t"))
	if live := s.see("/?live=1", browser); !strings.Contains(live, html) {
		t.Errorf("another section is refreshed: %s", live)
	}
	golden(t, "fleet.txt", strings.TrimSpace(section(t, s.see("/", ""), "\nDAEMON", "\n\n"))+"\n")
}
