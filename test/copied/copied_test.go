package copied

import (
	"slices"
	"testing"
)

type inner struct{ list []string }

type outer struct {
	n      int
	byName map[string]inner
	pair   [2]inner
	shared *int
	absent map[string]int
}

func TestACopyGoesOnByItself(t *testing.T) {
	shared := 1
	a := &outer{7, map[string]inner{"x": {[]string{"old"}}}, [2]inner{{[]string{"first"}}, {}}, &shared, nil}
	b := Of(a)
	a.n, a.byName["x"].list[0], a.pair[0].list[0], *a.shared = 8, "new", "second", 2
	a.byName["y"] = inner{}
	if b.n != 7 || !slices.Equal(b.byName["x"].list, []string{"old"}) || len(b.byName) != 1 ||
		b.pair[0].list[0] != "first" || b.pair[1].list != nil {
		t.Errorf("%+v", b)
	}
	if *b.shared != 2 || b.absent != nil {
		t.Errorf("%+v", b)
	}
}

func TestAFieldIsTheStructsOwn(t *testing.T) {
	a := &struct{ in *outer }{&outer{pair: [2]inner{{[]string{"first"}}}}}
	*Field[int](a, "in", "n") = 5
	if a.in.n != 5 || Field[[2]inner](a, "in", "pair")[0].list[0] != "first" {
		t.Errorf("%+v", a.in)
	}
}
