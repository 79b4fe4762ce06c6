package memcache

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
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
		{"binary, one after the other", sasl("ann") + get + sasl("bob") + get,
			"Authenticated|101|Authenticated|bob may not|"},
		{"a login that fails", sasl("ann") + get + sasl("eve") + get,
			"Authenticated|102|Auth failure.|Auth failure.|<closed>"},
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

// A login that is not decided yet consumes and counts nothing and is asked about again with the same bytes;
// one that cannot be decided is refused, and is no failure.
func TestALoginWaits(t *testing.T) {
	sasl := string(frameOf(opSASLAuth, "", "PLAIN", "\x00ann\x00x"))
	text := "set x 0 0 5\r\nann x\r\n"
	for _, c := range []struct{ name, in, want string }{
		{"text", text + "get id\r\n", "STORED\r\nVALUE id 0 3\r\n100\r\nEND\r\n"},
		{"binary", sasl + string(frameOf(0x00, "", "id", "")), "Authenticated|100|"},
		{"in two steps", string(frameOf(opSASLAuth, "", "PLAIN", "")) + string(frameOf(0x22, "", "PLAIN", "\x00ann\x00x")),
			"|Authenticated|"},
	} {
		var c2 protocol.Counters
		asked, config := 0, &protocol.Config{Handler: newFake(), Counters: &c2, Version: "1.2.3"}
		config.Auth = func(user, password []byte) (*protocol.Config, error) {
			if string(user) != "ann" || string(password) != "x" {
				t.Errorf("%s: %q %q", c.name, user, password)
			}
			if asked++; asked <= 3 {
				return nil, id.ErrWait
			}
			return config, nil
		}
		s, in, out, waits := NewSession(config), []byte(c.in), []byte(nil), 0
		for len(in) > 0 {
			n, reply, err := s.Feed(1, in, out)
			if in, out = in[n:], reply; err == id.ErrWait {
				waits++
				if n, again, err := s.Feed(1, nil, out); n != 0 || len(again) != len(out) || err != nil {
					t.Errorf("%s: nothing more to read: %d %v", c.name, n, err)
				}
			} else if err != nil || n == 0 {
				t.Fatalf("%s: %d %v, %q", c.name, n, err, out)
			}
		}
		got := string(out)
		if c.in[0] == magicRequest {
			got = bodies(got)
		}
		var counts protocol.Counts
		if c2.AddTo(&counts); got != c.want || waits != 3 || counts[protocol.CmdAuth] != 1 ||
			counts[protocol.AuthErrors] != 0 {
			t.Errorf("%s: %q after %d waits, %d logins, %d failed; want %q", c.name, got, waits, counts[protocol.CmdAuth],
				counts[protocol.AuthErrors], c.want)
		}
		for i, n := range counts {
			if n > 2 {
				t.Errorf("%s: %d of counter %d", c.name, n, i)
			}
		}
	}

	config := &protocol.Config{Handler: newFake(), Counters: new(protocol.Counters), Version: "1.2.3"}
	config.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, errors.New("busy") }
	for in, want := range map[string]string{strings.Repeat(text, 5): strings.Repeat("SERVER_ERROR busy\r\n", 5),
		strings.Repeat(sasl, 5): strings.Repeat("busy|", 5)} {
		got := string(answerTo(t, NewSession(config), []byte(in)))
		if in[0] == magicRequest {
			got = bodies(got)
		}
		if got != want {
			t.Errorf("%.20q: %q, want %q", in, got, want)
		}
	}
}

// A guarded handler refuses keys that begin with x.
type guarded struct{ *fake }

func (guarded) Permit(key []byte) error {
	if key[0] == 'x' {
		return id.NotPermitted(key)
	}
	return nil
}

// What is refused because of one key consumes nothing, however late the key comes and however long the line
// is.
func TestARefusedLineConsumesNothing(t *testing.T) {
	f := newFake()
	s := newSession(f)
	s.config.Handler = guarded{f}
	long := "get a" + strings.Repeat(" abcdefgh", 20_000)
	in := "get a b x1\r\ngets a x2 x3\r\n" + long + " x4\r\ngat 0 a x5\r\nget a\r\n"
	want := "CLIENT_ERROR not permitted: x1\r\nCLIENT_ERROR not permitted: x2\r\nCLIENT_ERROR not permitted: " +
		"x4\r\nCLIENT_ERROR not permitted: x5\r\nVALUE a 0 3\r\n100\r\nEND\r\n"
	if got := string(answerTo(t, s, []byte(in))); got != want {
		t.Errorf("%.200q, want %q", got, want)
	}
	var counts protocol.Counts
	if s.config.Counters.AddTo(&counts); counts[protocol.Refused] != 3+3+20_002+2 || counts[protocol.IDs] != 1 {
		t.Errorf("%d refused, %d ids", counts[protocol.Refused], counts[protocol.IDs])
	}
}
