package explore

import (
	"cmp"
	_ "embed"
	"testing"
)

//go:embed testdata/mended.txt
var mended string

// Schedules that broke the promise once do no more.
func TestSchedulesThatAreMended(t *testing.T) {
	for _, m := range read(mended, mutantFields) {
		schedule, err := ParseSchedule(m.schedule)
		if err != nil {
			t.Fatal(err)
		}
		s := settingOf(cmp.Or(m.world, "files"))
		if told, err := Replay(s.begin(t, ""), schedule, s.time); err != nil {
			t.Errorf("%s: %v: %v", m.name, told, err)
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
