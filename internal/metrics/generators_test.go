package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestGenerators(t *testing.T) {
	many := func(n int) (list []Generator) {
		for i := range n {
			list = append(list, Generator{Name: fmt.Sprint("name", i), Kind: "uuid7", Issued: uint64(i), Ready: true})
		}
		return list
	}
	facts := func(waits, left float64) []GeneratorFact {
		return []GeneratorFact{{Name: "waits", Help: "Waits.", Value: waits, Count: true},
			{Name: "left", Help: "Left.", Value: left}}
	}
	list := append(many(MaxGenerators-1), Generator{Name: "orders", Kind: "sequence", Issued: 5, Facts: facts(3, 70)})
	c := &collector{read: func() Snapshot { return Snapshot{Generators: list} }}
	const names = `katsubushi_generator_issued_total{generator="orders",kind="sequence"} 5
katsubushi_generator_left{generator="orders",kind="sequence"} 70
katsubushi_generator_ready{generator="orders",kind="sequence"} 0
katsubushi_generator_waits_total{generator="orders",kind="sequence"} 3
`
	const texts = `# HELP katsubushi_generator_left Left.
# TYPE katsubushi_generator_left gauge
# HELP katsubushi_generator_waits_total Waits.
# TYPE katsubushi_generator_waits_total counter
# HELP katsubushi_generator_issued_total Ids issued under a declared name.
# TYPE katsubushi_generator_issued_total counter
# HELP katsubushi_generator_ready 1 while a declared name issues ids; 0 also for a sequence that has ended.
# TYPE katsubushi_generator_ready gauge
`
	for _, step := range []struct {
		more   []Generator
		others string
	}{
		{nil, ""},
		{[]Generator{{Name: "a", Issued: 10, Ready: true}}, `katsubushi_generator_issued_total{generator="_other",kind="_other"} 10
katsubushi_generator_ready{generator="_other",kind="_other"} 1
`},
		{[]Generator{{Name: "b", Issued: 7, Ready: false, Facts: facts(11, 1)}, {Name: "c", Ready: true, Facts: facts(4, 2)}}, `katsubushi_generator_issued_total{generator="_other",kind="_other"} 17
katsubushi_generator_ready{generator="_other",kind="_other"} 0
katsubushi_generator_waits_total{generator="_other",kind="_other"} 15
`},
	} {
		list = append(list, step.more...)
		want := texts + names + step.others
		for _, g := range list[:MaxGenerators-1] {
			want += fmt.Sprintf("katsubushi_generator_issued_total{generator=%q,kind=\"uuid7\"} "+
				"%d\nkatsubushi_generator_ready{generator=%q,kind=\"uuid7\"} 1\n", g.Name, g.Issued, g.Name)
		}
		if err := testutil.CollectAndCompare(c, strings.NewReader(want), "katsubushi_generator_issued_total",
			"katsubushi_generator_left", "katsubushi_generator_left_total", "katsubushi_generator_ready",
			"katsubushi_generator_waits_total"); err != nil {
			t.Error(err)
		}
	}
	if problems, err := testutil.CollectAndLint(c); err != nil {
		t.Error(problems, err)
	}
}
