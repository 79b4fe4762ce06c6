package stores

import "testing"

func TestWhereSequencesAre(t *testing.T) {
	for want, c := range map[string]Counters{
		"/s/sequences":           {Dir: "/s"},
		"/d":                     {URL: "file:///d", Dir: "/s"},
		"postgres://u@h/app":     {URL: "postgres://u@h/app", Dir: "/s"},
		"redis://u:xxxxx@h?ns=a": {URL: "redis://u:hush@h?ns=a"},
	} {
		if got := c.Where(); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}
