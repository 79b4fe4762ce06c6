package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

const dashboardFile = "../../deploy/grafana/katsubushi.json"

// A dashboard is what these tests read of Grafana's file.
type dashboard struct {
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ Expr string }
	}
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct {
		List []struct{ Name, Query string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboard: each expression names metrics and labels that there are, and is PromQL; no panel covers another
// one, and all say what they are about. Whether Grafana knows its fields, make test-dashboard finds out.
func TestDashboard(t *testing.T) {
	dashboard := readDashboard(t)
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
	file := tempfile.Write(t, "rules.yml", rules)
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), fmt.Sprintf("%d rules found", len(queries))) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDashboardOfFleets: the figures at the top are red where something is wrong, and none of them is a
// green 0 while no daemon answers.
func TestDashboardOfFleets(t *testing.T) {
	tests, err := os.ReadFile("testdata/fleets.yml")
	if err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$job", "ids", "$instance", ".+", "$__rate_interval", "1m", "'", "''")
	for _, p := range readDashboard(t).Panels {
		if len(p.Targets) > 0 {
			expr := values.Replace(p.Targets[0].Expr)
			tests = bytes.ReplaceAll(tests, []byte("{"+p.Title+"}"), []byte(expr))
		}
	}
	file := tempfile.Write(t, "tests.yml", string(tests))
	if out, err := exec.Command(promtool(t), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, tests)
	}
}
