package systemd

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTheReleaseFindsItsFiles: goreleaser itself is too large for make test; see make release-check.
func TestTheReleaseFindsItsFiles(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile(".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type file struct{ Src, Dst string }
	var config struct {
		Builds   []struct{ Goos, Goarch []string }
		Archives []struct{ Files []file }
		Nfpms    []struct {
			Contents  []file
			Overrides map[string]struct{ Scripts map[string]string }
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Builds) != 1 || len(config.Archives) != 1 || len(config.Nfpms) != 1 {
		t.Fatalf("%+v", config)
	}
	if b := config.Builds[0]; len(b.Goos) != 3 || len(b.Goarch) != 2 {
		t.Errorf("built for %q on %q", b.Goos, b.Goarch)
	}
	files := append(config.Archives[0].Files, config.Nfpms[0].Contents...)
	scripts := []string{"deploy/packages/prepare"}
	for _, format := range []string{"deb", "rpm"} {
		for _, path := range config.Nfpms[0].Overrides[format].Scripts {
			files, scripts = append(files, file{Src: path}), append(scripts, path)
		}
	}
	if len(files) < 20 || len(scripts) != 7 {
		t.Errorf("%d files and the scripts %q", len(files), scripts)
	}
	for _, f := range files {
		if f.Src == "" || strings.HasPrefix(f.Src, "bin/package/") { // a folder, or what prepare makes
			continue
		}
		if _, err := os.Stat(f.Src); err != nil {
			t.Error(err)
		}
	}
	if out, err := exec.Command("sh", append([]string{"-c", `for f; do sh -n "$f" || exit 1; done`, "sh"}, scripts...)...).
		CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	// deploy/packages/prepare changes this line of the unit, and no other names the folder.
	unit, err := os.ReadFile("deploy/katsubushi.service")
	_, rest, _ := strings.Cut(string(unit), "[Unit]")
	if err != nil || strings.Count(rest, "/usr/local/") != 1 ||
		!strings.Contains(rest, "\nExecStart=/usr/local/bin/katsubushi\n") {
		t.Errorf("deploy/packages/prepare would not find what it changes in the unit: %v", err)
	}
}
