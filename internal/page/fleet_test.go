package page

import (
	"fmt"
	"net/http/httptest"
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

// shows asks a page with a fleet, and returns what it says and for how long it waited for the fleet.
func shows(r *fleet.Roster, target, accept string) (body string, waited []time.Duration) {
	v := healthy()
	request := httptest.NewRequest("GET", target, nil)
	request.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	Handler(Config{Read: func() View { return v }, History: past(&v), Fleet: func(patience time.Duration) *fleet.Roster {
		waited = append(waited, patience)
		return r
	}}).ServeHTTP(w, request)
	return w.Body.String(), waited
}

// TestTheFleetIsShown compares it with testdata/fleet.*.golden.
func TestTheFleetIsShown(t *testing.T) {
	body, waited := shows(company(), "/", browser)
	_, section, found := strings.Cut(body, `<section id="fleet"`)
	section, _, _ = strings.Cut(section, "</section>")
	if !found || len(waited) != 1 || waited[0] != browserPatience {
		t.Fatalf("waited %v; %s", waited, body)
	}
	golden(t, "fleet.html", strings.ReplaceAll(section, "<t", "\n<t"))
	if live, waited := shows(company(), "/?live=1", browser); !strings.Contains(live, section) || waited[0] != 0 {
		t.Errorf("waited %v; %s", waited, live)
	}
	body, waited = shows(company(), "/", "")
	_, text, found := strings.Cut(body, "\nDAEMON")
	text, _, _ = strings.Cut(text, "\n\n")
	if !found || waited[0] != plainPatience {
		t.Fatalf("waited %v; %s", waited, body)
	}
	golden(t, "fleet.txt", "DAEMON"+text+"\n")
	if _, waited := shows(company(), "/?id=7", ""); len(waited) != 0 {
		t.Error("an id is asked for, and the fleet too")
	}
}

// TestWithoutAFleet there is no part of the page for it.
func TestWithoutAFleet(t *testing.T) {
	for _, accept := range []string{browser, ""} {
		if body, _ := shows(nil, "/", accept); strings.Contains(body, `"fleet"`) || strings.Contains(body, "DAEMON") {
			t.Error(body)
		}
	}
}

// TestALargeFleet: a part is shown, those with troubles first, and the rest counted.
func TestALargeFleet(t *testing.T) {
	r := &fleet.Roster{More: 5}
	for i := range 250 {
		m := fleet.Member{Addr: fmt.Sprintf("10.0.0.%d:1", i), State: fleet.Ready}
		if i > 247 {
			m.State = "no answer"
		}
		r.Members = append(r.Members, m)
	}
	r.Members[200].Self = true
	body, _ := shows(r, "/", browser)
	if n := strings.Count(body, `data-label="window left"`) - len(healthy().Lanes); n != maxDaemons {
		t.Errorf("%d daemons are shown", n)
	}
	at := func(i int) int { return strings.Index(body, fmt.Sprintf("10.0.0.%d:1<", i)) }
	own := strings.Index(body, "10.0.0.200:1 <small>this daemon")
	if !strings.Contains(body, "155 more") || own < 0 || at(248) < own || at(249) < at(248) ||
		at(0) < at(249) || at(97) >= 0 {
		t.Error(body)
	}
	for i := range r.Members[:200] {
		r.Members[i].State = "no answer"
	}
	r.Members[210].State, r.Members[210].Ahead = fleet.NotReady, new(fleet.Milliseconds)
	body, _ = shows(r, "/", browser)
	if at(210) < 0 || at(0) < at(210) || at(201) < at(49) || at(50) < at(247) ||
		at(52) >= 0 {
		t.Errorf("with many that do not answer: %s", body)
	}
}
