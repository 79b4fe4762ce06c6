package main

import (
	"slices"
	"strings"
	"testing"
)

// kayac are the flags of kayac/go-katsubushi v2, which has their environment variables without a
// prefix.
var kayac = strings.Fields(`worker-id port sock idle-timeout http-port grpc-port debug-port enable-pprof enable-stats log-level redis
	min-worker-id max-worker-id`)

// TestEverySettingCanBeGivenByTheEnvironment: by a name of the same form for all, so that a new
// setting has one by itself.
func TestEverySettingCanBeGivenByTheEnvironment(t *testing.T) {
	for _, list := range []func(*options) []setting{settings, runSettings} {
		for _, s := range list(new(options)) {
			upper := strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
			names := []string{"KATSUBUSHI_" + upper}
			if bare := slices.Contains(kayac, s.name) || s.name == "bind"; bare {
				names = append(names, upper, strings.ToLower(upper))
			}
			for _, name := range []string{"KATSUBUSHI_" + upper, upper, strings.ToLower(upper)} {
				by, value, err := s.environment(environment(name, "17"))
				if known := slices.Contains(names, name); known != (by == name && value == "17") || !known && by+value != "" ||
					err != nil {
					t.Errorf("%s=17 sets -%s to %q by %q: %v", name, s.name, value, by, err)
				}
			}
			for i, first := range names {
				for _, second := range names[i+1:] {
					if _, _, err := s.environment(environment(first, "1", second, "2")); err == nil ||
						err.Error() != first+" and "+second+" are the same setting and have different values" {
						t.Errorf("%s=1 %s=2: %v", first, second, err)
					}
				}
			}
		}
	}
}

func TestAFlagBeatsTheEnvironmentOfItsOtherName(t *testing.T) {
	p, _, err := parse(runSettings, []string{"-redis", "redis://flag/0"},
		environment("KATSUBUSHI_SERVER", "redis://variable/0"), nil)
	if err != nil || p.Store.URL != "redis://flag/0" || p.names["Store.URL"] != "-redis" {
		t.Errorf("%v %s of %s", err, p.Store.URL, p.names["Store.URL"])
	}
}
