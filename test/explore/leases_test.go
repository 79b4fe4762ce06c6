package explore

import (
	"strings"
	"testing"
)

// Schedules that broke the promise once, found by make explore.
func TestSchedulesThatAreMended(t *testing.T) {
	for _, schedule := range []string{
		"9:2.0.1.1.13.0 10:19.1.0.0.0.2 20:12.0.0.0.0.2", // two processes write into one new file
		"9:8.1.0.1.8.0 10:19.1.0.0.0.2 16:12.0.0.0.0.2",  // a record that came while the lock was away is replaced
		// what is at the path after the rename is another's
		"11:19.1.0.0.0.0 12:2.0.1.1.21.0 13:19.1.0.0.0.3 17:12.0.0.0.0.2",
		// a window is granted though the record is another's by now
		"9:1.0.1.1.0.0 10:8.1.0.0.25.0 12:19.1.0.0.0.3 17:12.0.0.0.0.2",
		// a page stays though a later run is recorded, and so a copy of the record before is believed
		"9:2.0.1.1.0.0 10:11.1.0.0.0.0 11:9.1.0.0.23.0 20:12.0.0.0.0.0",
		"9:2.0.1.1.2.0 11:11.1.0.0.0.0 12:18.1.0.1.20.0 19:12.0.0.0.0.0", // it cannot be removed
		"9:2.0.1.1.14.0 10:19.1.0.0.0.2 11:8.1.0.0.13.1 12:12.0.0.0.0.2", // another's new file is renamed
		"9:1.0.1.1.0.0 10:8.1.0.0.20.0 12:19.1.0.0.0.2 17:12.0.0.0.0.2",  // it is not
		// a start that had read the record goes on without files, and leaves the page
		"shared 9:2.0.1.1.11.0 11:11.1.0.0.0.0 12:19.1.0.0.0.1 20:12.0.0.0.0.0",
	} {
		schedule, shares := strings.CutPrefix(schedule, "shared ")
		s, err := ParseSchedule(schedule)
		if err != nil {
			t.Fatal(err)
		}
		if told, err := Replay(Files(shares)(""), s, 9000); err != nil {
			t.Errorf("%v: %v", told, err)
		}
	}
}

// An exploration that was stopped goes on from its path, and visits what is left.
func TestResume(t *testing.T) {
	b := Bound{Faults: 1, Time: 22_000}
	whole := (&Explorer{Bound: b}).Run(Leases(""))
	var path []int
	e := &Explorer{Bound: b, Every: 1000}
	e.Tell = func(Report) {
		path = e.Path()
		panic("stop")
	}
	func() {
		defer func() { _ = recover() }()
		e.Run(Leases(""))
	}()
	rest := (&Explorer{Bound: b, Resume: path}).Run(Leases(""))
	if !rest.Complete || rest.Err != nil || rest.Points < whole.Points-1000 {
		t.Errorf("%d points after 1000 of %d: %+v", rest.Points, whole.Points, rest)
	}
}
