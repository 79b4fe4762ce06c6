package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const dashboardFile = "../../deploy/grafana/katsubushi.json"

// TestDashboard: each expression names metrics and labels that there are, and is PromQL; no panel covers another
// one, and all say what they are about. Whether Grafana knows its fields, make test-dashboard finds out.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ X, Y, W, H int }
	var dashboard struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  place
			Targets                  []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
		Templating  struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var queries []string
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %q: its id, %d, is another one's too, or it has no title", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Errorf("panel %q covers %q, or is outside, at %v", p.Title, taken[at], at)
				}
				taken[at] = p.Title
			}
		}
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q says not what it is about, or shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		queries = append(queries, a.Expr)
	}
	asked := strings.Join(queries, "\n")
	for _, v := range dashboard.Templating.List {
		asked += "\n" + v.Query
		if v.Name != "datasource" && !strings.Contains(asked, "$"+v.Name) {
			t.Errorf("nothing depends on $%s", v.Name)
		}
	}
	if found := asksForMetrics(t, asked); found < 40 {
		t.Errorf("%d metrics found in the dashboard", found)
	}
	parsePromQL(t, queries)
}

// parsePromQL has promtool parse expressions.
func parsePromQL(t *testing.T, queries []string) {
	t.Helper()
	promtool := promtool(t)
	values := strings.NewReplacer("$job", "ids", "$instance", "h:1", "$__rate_interval", "1m")
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, q := range queries {
		rules += fmt.Sprintf("  - {record: \"query:%d\", expr: %q}\n", i, values.Replace(q))
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), fmt.Sprintf("%d rules found", len(queries))) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDashboardOfFleets: the figures at the top are red where something is wrong, and none of them is a
// green 0 while no daemon answers.
func TestDashboardOfFleets(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	exprs := map[string]string{}
	for _, p := range dashboard.Panels {
		if len(p.Targets) > 0 {
			values := strings.NewReplacer("$job", "ids", "$instance", ".+", "$__rate_interval", "1m")
			exprs[p.Title] = values.Replace(p.Targets[0].Expr)
		}
	}
	type series map[string]string // the values of each
	daemon := func(s series, job, instance, up, ready, worker string) {
		of := fmt.Sprintf(`{job="%s", instance="%s"`, job, instance)
		s["up"+of+"}"], s["katsubushi_ready"+of+"}"] = up, ready
		s["katsubushi_layout_info"+of+`, fingerprint="`+worker[:1]+`"}`] = ready
		s["katsubushi_build_info"+of+"}"] = ready
		s["katsubushi_lane_state"+of+`, state="serving", lane="0", `+worker[1:]+"}"] = ready
	}
	healthy, broken, down, none, pods := series{}, series{}, series{}, series{}, series{}
	for i, s := range []series{healthy, broken, down, none, pods} {
		daemon(s, "other", "a", "0 0", "_ _", `xworker_id="1"`)
		daemon(s, "other", "b", "1 1", "0 0", `yworker_id="1"`)
		daemon(s, "other", "c", "1 1", "1 1", `zworker_id="1"`)
		switch i {
		case 0:
			daemon(s, "ids", "a", "1 1", "1 1", `xworker_id="1", pool="p"`)
			daemon(s, "ids", "b", "1 1", "1 1", `xworker_id="1", pool="q"`)
		case 1:
			daemon(s, "ids", "a", "1 1", "1 1", `xworker_id="1", pool="p"`)
			daemon(s, "ids", "b", "1 1", "1 1", `yworker_id="1"`)
			daemon(s, "ids", "c", "1 1", "0 0", `yworker_id="2"`)
			daemon(s, "ids", "d", "0 0", "1 stale", `yworker_id="3"`)
		case 2:
			daemon(s, "ids", "a", "0 0", "1 stale", `xworker_id="1"`)
			daemon(s, "ids", "b", "0 0", "1 stale", `xworker_id="1"`)
		case 4: // of one name in two namespaces
			daemon(s, `ids", namespace="eu`, "a", "1 1", "1 1", `xworker_id="1"`)
			daemon(s, `ids", namespace="us`, "a", "1 1", "1 1", `yworker_id="1"`)
		}
	}
	const idle, twice = "Daemons that issue no ids", "Worker ids on two hosts"
	const layouts, rate, hosts = "Layouts", "Ids per second", "What runs"
	exprs[hosts] = "count(" + exprs[hosts] + ")" // a table
	tests := "tests:\n"
	for _, c := range []struct {
		of   series
		want map[string]string // the figure; "" = no value
	}{
		{healthy, map[string]string{idle: "0", twice: "0", layouts: "1"}},
		{broken, map[string]string{idle: "2", twice: "1", layouts: "2"}},
		{down, map[string]string{idle: "2", twice: "", layouts: "", rate: ""}},
		{none, map[string]string{idle: "", twice: "", layouts: "", rate: ""}},
		{pods, map[string]string{idle: "0", twice: "0", layouts: "1", hosts: "2"}},
	} {
		tests += "- interval: 1m\n  input_series:\n"
		for _, name := range slices.Sorted(maps.Keys(c.of)) {
			tests += fmt.Sprintf("  - {series: %q, values: %q}\n", name, c.of[name])
		}
		tests += "  promql_expr_test:\n"
		for _, title := range slices.Sorted(maps.Keys(c.want)) {
			want := ""
			if v := c.want[title]; v != "" {
				want = "{labels: '{}', value: " + v + "}"
			}
			tests += fmt.Sprintf("  - {expr: %q, eval_time: 1m, exp_samples: [%s]}\n", exprs[title], want)
		}
	}
	file := filepath.Join(t.TempDir(), "tests.yml")
	if err := os.WriteFile(file, []byte(tests), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool(t), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, tests)
	}
}
