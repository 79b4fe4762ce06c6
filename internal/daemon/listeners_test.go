package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// TestListeners: each line of the table is complete, and nothing that must differ is there twice.
func TestListeners(t *testing.T) {
	seen := map[any]bool{}
	for i, l := range listeners() {
		var p Ports
		*l.Number(&p) = 1
		for _, unique := range []any{"-" + l.Flag, "name " + l.name, p} {
			if seen[unique] {
				t.Errorf("%s: another line has %v too", l.name, unique)
			}
			seen[unique] = true
		}
		if l.Help == "" || (l.session == nil) == (l.service == nil) || (l.session != nil) != (l.refusal != "" && l.outOfMemory != "") {
			t.Errorf("%s: an incomplete line: %+v", l.name, l)
		}
		if first := i == 0; first != (l.name == "memcached") || first != l.sock {
			t.Errorf("%s is line %d; the memcached port must be the first, and the only one that can be a unix socket", l.name, i)
		}
	}
}

// TestPortNumbers: a number that no port can have is refused by the name of its flag, on or off.
func TestPortNumbers(t *testing.T) {
	for _, l := range listeners() {
		for number, wrong := range map[int]bool{-1: true, 0: false, 1: false, 65535: false, 65536: true} {
			c := testConfig()
			*l.Number(&c.Ports) = number
			refused := slices.ContainsFunc(problem.Of(c.Validate()), func(p *problem.Setting) bool {
				return p.Field == l.Flag && strings.Contains(p.Error(), "0 to 65535 allowed")
			})
			if refused != wrong {
				t.Errorf("-%s %d: %v", l.Flag, number, c.Validate())
			}
		}
	}
}
