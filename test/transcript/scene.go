package transcript

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A Scene feeds a session step by step, and says what it answers, leaves and counts.
type Scene struct {
	T       testing.TB
	Session Session
	Config  *protocol.Config
	Most    int                                  // bytes that the session may leave unconsumed
	Lines   func(reply []byte) []string          // writes a reply as lines of a file
	Handler func(refusal error) protocol.Handler // of a user; nil = it issues ids
	Besides func(add func(what string))          // says what else came of a step; nil = nothing
	users   map[string]*protocol.Config          // who may log in, with the password x
	slow    int                                  // how often a login waits
	waited  int
	left    []byte
	counted protocol.Counts
}

// counters are the names of a protocol.Counts.
var counters = strings.Fields("other get gets gat mg ids meta set touch delete incr flush stats version auth id " +
	"refused malformed long unauthenticated autherror hit")

// shown is how many lines of an answer are.
const shown = 40

// Said writes what a step answered, and all that came of it since the last one.
func (s *Scene) Said(out []byte, err error) string {
	lines := s.Lines(out)
	if n := len(lines); n > shown {
		lines = slices.Concat(lines[:3], []string{fmt.Sprintf("... %d lines", n)}, lines[n-3:])
	}
	add := func(what string) { lines = append(lines, "- "+what) }
	if err != nil {
		add(err.Error())
	}
	if len(s.left) > 0 {
		add(fmt.Sprintf("left %.60q", s.left))
	}
	var now protocol.Counts
	s.Config.Counters.AddTo(&now)
	what := "counted"
	for i, n := range now {
		if n -= min(n, s.counted[i]); n > 0 {
			what += fmt.Sprint(" ", n, " ", counters[i])
		}
	}
	if s.counted != now {
		s.counted = now
		add(what)
	}
	if s.Besides != nil {
		s.Besides(add)
	}
	return strings.Join(lines, "\n")
}

func (s *Scene) feed(in []byte) string {
	n, out, err := s.Session.Feed(Now, in, nil)
	if len(in) > 0 {
		s.left = in[n:]
	}
	return s.Said(out, err)
}

// Bytes are what a text of a script stands for.
func (s *Scene) Bytes(text string) []byte {
	b, err := decode('.', text)
	if err != nil {
		s.T.Fatal(err)
	}
	return b
}

func (s *Scene) login(user, password []byte) (*protocol.Config, error) {
	if s.slow < 0 {
		return nil, errors.New("busy")
	}
	if s.waited++; s.waited <= s.slow {
		return nil, id.ErrWait
	}
	s.waited = 0
	if string(password) != "x" {
		return nil, nil
	}
	return s.users[string(user)], nil
}

// Calls are what a script does: "feed" is one Feed of a text, "again" another of what is left, "answer" as many as it
// takes; "user" lets one in, with a refusal or none, and "logins" has logins wait so often, or never be decided.
func (s *Scene) Calls(more script.Calls) script.Calls {
	more["feed"] = func(in string) string { return s.feed(s.Bytes(in)) }
	more["again"] = func() string { return s.feed(s.left) }
	more["answer"] = func(in string) string {
		out := Answer(s.T, s.Session, s.Most, s.Bytes(in))
		s.left = nil
		return s.Said(out, nil)
	}
	more["user"] = func(name, why string) {
		c := *s.Config
		if s.users == nil {
			s.users = map[string]*protocol.Config{}
			s.Config.Auth = s.login
		}
		if c.Auth, c.Handler = s.login, s.Handler(nil); why != "" {
			c.Handler = s.Handler(errors.New(why))
		}
		s.users[name] = &c
	}
	more["logins"] = func(wait int) { s.slow = wait }
	return more
}
