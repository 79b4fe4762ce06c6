package memcache

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// TestALoginChoosesTheHandler: after a login the session gets that user's ids, and after another
// login the next user's. After a failed login nobody is logged in.
func TestALoginChoosesTheHandler(t *testing.T) {
	users := map[string]*protocol.Config{}
	login := func(user, password []byte) (*protocol.Config, error) { return users[string(user)], nil }
	nobody := refuser{newFake(), errors.New("nobody may")}
	config := func(h protocol.Handler) *protocol.Config {
		return &protocol.Config{Handler: h, Counters: new(protocol.Counters), Version: "1.2.3", Auth: login}
	}
	users["ann"], users["bob"] = config(newFake()), config(refuser{newFake(), errors.New("bob may not")})
	sasl := func(user string) string { return string(frameOf(opSASLAuth, "", "PLAIN", "\x00"+user+"\x00x")) }
	get := string(frameOf(0x00, "", "id", ""))

	for _, c := range []struct{ what, in, want string }{
		{"text", "set x 0 0 5\r\nann x\r\nget id\r\n", "STORED\r\nVALUE id 0 3\r\n100\r\nEND\r\n"},
		{"another user's rights", "set x 0 0 5\r\nbob x\r\nget id\r\n", "STORED\r\nSERVER_ERROR bob may not\r\n"},
		{"binary, one after the other", sasl("ann") + get + sasl("bob") + get, "Authenticated|101|Authenticated|bob may not|"},
		{"a login that fails", sasl("ann") + get + sasl("eve") + get, "Authenticated|102|Auth failure.|Auth failure.|<closed>"},
	} {
		got := string(answerTo(t, NewSession(config(nobody)), []byte(c.in)))
		if c.in[0] == magicRequest {
			got = bodies(got)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	var counts protocol.Counts
	if users["bob"].Counters.AddTo(&counts); counts[protocol.Refused] != 2 {
		t.Errorf("bob was refused %d times", counts[protocol.Refused])
	}
}

// bodies returns the texts of binary responses, without flags.
func bodies(answer string) (s string) {
	for len(answer) >= headerLen && answer[0] == magicResponse {
		h := parseHeader([]byte(answer))
		s += strings.TrimPrefix(answer[headerLen:headerLen+h.body], noFlags) + "|"
		answer = answer[headerLen+h.body:]
	}
	return s + answer
}
