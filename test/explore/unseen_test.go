package explore

import (
	_ "embed"
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
	long                 bool // found within the bounds of make explore only
}

//go:embed testdata/edits.txt
var edited string

// edits were chosen by reading the list of rules in the product, before it was tried which world finds them, but by
// the author of the worlds. Each is looked for within the bounds of make test.
var edits = read(edited, func(x *edit) map[string]any {
	return map[string]any{"name": &x.name, "file": &x.file, "old": &x.old, "new": &x.new, "world": &x.world,
		"needs": &x.needs, "long": &x.long}
})

// Each edit can be made. With KATSUBUSHI_SOAK=1 it is, in an overlay, and the exploration of its world fails.
func TestUnseenMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range edits {
		t.Run(x.name, func(t *testing.T) {
			path, dir := filepath.Join(root, x.file), t.TempDir()
			text, err := os.ReadFile(path)
			if err != nil || strings.Count(string(text), x.old) != 1 {
				t.Fatalf("%s does not say %q once (%v)", x.file, x.old, err)
			}
			if !soak || underRace {
				t.Skip("KATSUBUSHI_SOAK=1 does it: the product is built anew for each")
			}
			if x.world == "" {
				t.Skip(x.needs)
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
			run := "TestEverySchedule/" + strings.ReplaceAll(x.world, " ", "_")
			if x.long {
				run = "TestLong$"
			}
			test := exec.Command("go", "test", "-count=1", "-v", "-timeout", "1h", "-overlay", overlay, "-run", run, ".")
			if x.long {
				test.Env = append(os.Environ(), "KATSUBUSHI_EXPLORE="+dir, "KATSUBUSHI_WORLD="+x.world)
			}
			out, err := test.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "points,") {
				t.Errorf("not found (%v)\n%s", err, out)
				return
			}
			t.Logf("%s", out)
		})
	}
}
