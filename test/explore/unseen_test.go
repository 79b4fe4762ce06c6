package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An edit is a mutant of the product itself: a text in a file, and what takes its place.
type edit struct {
	name, file, old, new string
	world                string // "" = no world finds it; needs says why
	needs                string
}

const untried = "not known: its exploration was not run to the end"

// edits were chosen by reading the list of rules in the product, before it was tried which world finds them, but by
// the author of the worlds. Each is looked for within the bounds of make test.
var edits = []edit{
	{name: "without a file a window starts anywhere", file: "workerid/static/worker.go",
		old: "if w.fresh {\n\t\tw.above", new: "if w.fresh && w.lost {\n\t\tw.above", world: "files"},
	{name: "the lock of a lost lease is released at once", file: "workerid/static/own.go",
		old: "case keep:", new: "case keep && lock == nil:",
		needs: "a lease that is lost, and another process that starts within the lost window: not within two faults"},
	{name: "a window reaches beyond the recorded mark", file: "workerid/static/worker.go",
		old: "max(g.Hi, min(w.highWater, now+w.near)); {", new: "max(g.Hi, now+w.near); {",
		needs: "a disk that stalls for longer than 25 s: schedules are 9 s long"},
	{name: "another run's record is taken for one's own", file: "workerid/static/own.go",
		old: "if r.Run.Nonce != w.state.record.Run.Nonce {", new: `if r.Run.Nonce == "" {`,
		needs: "files that are deleted and a process that is stopped: two faults that make test does not combine"},
	{name: "a leader that was replaced leads on", file: "counter/leader/learn.go",
		old: "case at.phase == leading && !still:", new: `case at.phase == leading && !still && l.ID == "":`,
		needs: "no bound: its renewals compare the key, so it answers no longer than before, and the fence keeps its blocks"},
	{name: "renewals of others are not noticed", file: "counter/leader/learn.go",
		old: "if !ok || old.revision != revision {", new: "if !ok {", needs: untried},
	{name: "a block is given back whoever has written since", file: "counter/record.go",
		old: "if b.Token != r.Token || b.Hi", new: "if b.Hi", needs: untried},
	{name: "a request joins a call that is under way", file: "internal/issuer/batches.go",
		old: "\tlast := len(b.open) - 1\n", needs: untried,
		new: "\tif o := b.sent; o != nil {\n\t\to.wants[r], b.noted[r] = true, o\n\t\to.requests = append(o.requests, r)\n" +
			"\t\treturn\n\t}\n\tlast := len(b.open) - 1\n"},
	{name: "a raised floor leaves no room for clocks", file: "workerid/pool/rules.go",
		old: "+m.Lease+m.Epsilon)\n\treturn m", new: "+m.Lease)\n\treturn m", needs: untried},
	{name: "a window starts below the floor", file: "workerid/pool/rules.go",
		old: "max(rec.Mark, m.Floor) + 2", new: "rec.Mark + 2", world: "leases"},
}

// With KATSUBUSHI_SOAK=1 each edit is made, in an overlay, and the exploration of its world fails.
func TestUnseenMutants(t *testing.T) {
	if !soak || underRace {
		t.Skip("KATSUBUSHI_SOAK=1 does it: the product is built anew for each")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range edits {
		t.Run(x.name, func(t *testing.T) {
			if x.world == "" {
				t.Skip(x.needs)
			}
			path, dir := filepath.Join(root, x.file), t.TempDir()
			text, err := os.ReadFile(path)
			if err != nil || strings.Count(string(text), x.old) != 1 {
				t.Fatalf("%s does not say %q once (%v)", x.file, x.old, err)
			}
			changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
			list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
			if err != nil {
				t.Fatal(err)
			}
			for file, b := range map[string][]byte{
				changed: []byte(strings.Replace(string(text), x.old, x.new, 1)), overlay: list,
			} {
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("go", "test", "-count=1", "-v", "-overlay", overlay, "-run",
				"TestEverySchedule/"+x.world, ".").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "points,") {
				t.Errorf("not found (%v)\n%s", err, out)
				return
			}
			t.Logf("%s", out)
		})
	}
}
