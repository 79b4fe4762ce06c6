package engines

import (
	"errors"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"runtime"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range candidates() {
		make, reason, err := Choose(c.name, 2)
		if why := c.probe(2); why != nil {
			if err == nil || !strings.Contains(err.Error(), why.Error()) {
				t.Errorf("%s cannot run here: error %v, want one that says %v", c.name, err, why)
			}
			continue
		}
		if err != nil || make(server.Config{}).Name() != c.name || reason == "" {
			t.Errorf("%s: reason %q, error %v", c.name, reason, err)
		}
	}
	make, reason, err := Choose("auto", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("auto: %s (%s)", make(server.Config{}).Name(), reason)
	if runtime.GOOS != "linux" && make(server.Config{}).Name() != "net" {
		t.Error("not net")
	}
	for _, name := range []string{"", "poll", "Net"} {
		if _, _, err := Choose(name, 2); err == nil || !strings.Contains(err.Error(), "auto") {
			t.Errorf("%q: error %v, want one that says what is allowed", name, err)
		}
	}
}

// Where io_uring is forbidden, auto selects the next engine and says why.
func TestChooseFallsBack(t *testing.T) {
	broken := candidate{"first", nil, func(int) error { return errors.New("not permitted") }}
	make, reason, err := choose("auto", 2, []candidate{broken, netCandidate()})
	if err != nil || make(server.Config{}).Name() != "net" || reason != "not first: not permitted" {
		t.Errorf("reason %q, error %v", reason, err)
	}
	if _, _, err := choose("first", 2, []candidate{broken, netCandidate()}); err == nil ||
		err.Error() != "engine first: not permitted" {
		t.Errorf("error %v", err)
	}
	if _, _, err := choose("auto", 2, []candidate{broken}); err == nil {
		t.Error("no error though nothing runs")
	}
}
