package resp

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A login that is not decided yet consumes and counts nothing and is asked about again; one that cannot be
// decided is refused, and is no failure.
func TestALoginWaits(t *testing.T) {
	for in, want := range map[string]string{
		"auth ann x\r\nget id\r\n":                          "+OK\r\n$3\r\n100\r\n",
		"hello 2 setname me auth ann x\r\n":                 "*14\r\n",
		"client reply skip\r\nauth ann x\r\nacl whoami\r\n": "-NOAUTH Authentication required.\r\n+OK\r\n$3\r\nann\r\n",
		"auth ann x\r\nmulti\r\nauth ann x\r\nget a\r\nexec\r\n": "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" +
			"+OK\r\n$3\r\n100\r\n",
	} {
		var counters protocol.Counters
		asked, config := 0, &protocol.Config{Handler: newFake(), Counters: &counters, Version: "1.2.3"}
		config.Auth = func(user, password []byte) (*protocol.Config, error) {
			if asked++; asked%3 != 0 {
				return nil, id.ErrWait
			}
			return config, nil
		}
		s, rest, out, waits := NewSession(config, true), []byte(in), []byte(nil), 0
		for i := 0; len(rest) > 0 && i < 100; i++ {
			n, reply, err := s.Feed(1, rest, out)
			if rest, out = rest[n:], reply; err == id.ErrWait {
				waits++
			} else if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
		}
		var counts protocol.Counts
		counters.AddTo(&counts)
		logins := strings.Count(in, "auth ")
		if !strings.HasPrefix(string(out), want) || waits != 2*logins || counts[protocol.CmdAuth] != uint64(logins) ||
			counts[protocol.AuthErrors] != 0 {
			t.Errorf("%q: %q after %d waits, counted %d; want %q", in, out, waits, counts[protocol.CmdAuth], want)
		}
	}
	config := &protocol.Config{Handler: newFake(), Counters: new(protocol.Counters), Version: "1.2.3"}
	config.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, errors.New("busy") }
	in := strings.Repeat("auth ann x\r\nhello 3 auth ann x\r\n", 3)
	if got, want := string(answerTo(t, NewSession(config, true), []byte(in))),
		strings.Repeat("-TRYAGAIN busy\r\n", 6); got != want {
		t.Errorf("%q, want %q", got, want)
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

// An MGET that is refused because of one key consumes nothing.
func TestARefusedMGETConsumesNothing(t *testing.T) {
	f := newFake()
	s := newSession(f)
	s.config.Handler = guarded{f}
	many := frame(append(append([]string{"MGET"}, strings.Fields(strings.Repeat("a ", 9000))...), "x3")...)
	in := "mget a b x1 x2\r\n" + string(many) + "get a\r\n"
	want := "-" + errNoPerm + "x1\r\n-" + errNoPerm + "x3\r\n$3\r\n100\r\n"
	if got := string(answerTo(t, s, []byte(in))); got != want {
		t.Errorf("%.300q, want %q", got, want)
	}
}
