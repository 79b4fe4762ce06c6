package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// TestListeners: each line of the table is complete, and nothing that must differ is there twice.
func TestListeners(t *testing.T) {
	seen := map[any]bool{}
	for _, l := range listeners() {
		var p Ports
		*l.number(&p) = 1
		for _, unique := range []any{"-" + l.flag, "name " + l.name, p} {
			if seen[unique] {
				t.Errorf("%s: another line has %v too", l.name, unique)
			}
			seen[unique] = true
		}
		if l.service == nil {
			t.Errorf("%s: an incomplete line: %+v", l.name, l)
		}
	}
}

// TestPortNumbers: a number that no port can have is refused by the name of its flag, on or off.
func TestPortNumbers(t *testing.T) {
	numbers := map[string]func(*Config) *int{
		front.PortFlag:  func(c *Config) *int { return &c.Port },
		front.RedisFlag: func(c *Config) *int { return &c.RedisPort },
	}
	for _, l := range listeners() {
		numbers[l.flag] = func(c *Config) *int { return l.number(&c.Ports) }
	}
	for flag, of := range numbers {
		for number, wrong := range map[int]bool{-1: true, 0: false, 1: false, 65535: false, 65536: true} {
			c := testConfig()
			*of(&c) = number
			refused := slices.ContainsFunc(problem.Of(c.Validate()), func(p *problem.Setting) bool {
				return p.Field == flag && strings.Contains(p.Error(), "0 to 65535 allowed")
			})
			if refused != wrong {
				t.Errorf("-%s %d: %v", flag, number, c.Validate())
			}
		}
	}
}
