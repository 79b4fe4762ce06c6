package stores

import (
	"os"
	"testing"
)

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

// TestPlace: it is the same however the store is reached, and another one where other sequences are.
func TestPlace(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string][]Counters{
		"nowhere":               {{}},
		"/s/sequences":          {{Dir: "/s"}, {URL: "file", Dir: "/s/"}},
		here + "/s/sequences":   {{Dir: "s"}, {Dir: "./s", DirByDefault: true}},
		"/d":                    {{URL: "file:///d", Dir: "/s"}},
		"h/app":                 {{URL: "postgres://u@h/app"}, {URL: "postgres://v:x@h/app?ca=/f", PasswordFile: "/p"}},
		"/app socket=/run/a":    {{URL: "mysql://u@/app?socket=/run/a"}},
		"h/app table=leaf_more": {{URL: "leaf+mysql://u@h/app?table=leaf_more"}},
		"a,b/1 ns=shop":         {{URL: "redis+sentinel://a,b/1?replicas=2&ns=shop"}, {URL: "redis://u:p@a,b/1?ns=shop"}},
	} {
		for _, c := range list {
			if got := c.Place(); got != want {
				t.Errorf("%+v: %s, want %s", c, got, want)
			}
		}
	}
}
