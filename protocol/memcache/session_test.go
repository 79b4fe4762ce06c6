package memcache

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// refusing has no ids.
func refusing(why error) *fake {
	f := newFake()
	f.Refusal = why
	return f
}

// TestSessions: what a Feed that must wait, is refused or takes long has consumed, answered, counted and asked for, and
// what the next one adds.
func TestSessions(t *testing.T) {
	steps.Run(t, "testdata/sessions.steps", func(t *testing.T) steps.Calls {
		f := newFake()
		session := newSession(f)
		var sifts *sifting
		var strict *punctual
		var began int64 // when its clock did, s
		s := &transcript.Scene{T: t, Session: session, Config: session.config, Most: most, Lines: encode,
			Handler: func(why error) protocol.Handler {
				if why == nil {
					return f
				}
				return refusing(why)
			}}
		s.Besides = func(add func(string)) {
			if len(f.Log) > 0 {
				add("minted " + strings.Join(f.Log, ", "))
				f.Log = nil
			}
			if sifts != nil {
				add(fmt.Sprintf("asked for %d sources", sifts.asked))
			}
			if strict != nil {
				var moments []string
				for _, when := range strict.asked {
					moments = append(moments, fmt.Sprint(when.Moment/1e9-began)+map[bool]string{true: " or where"}[when.Redirect])
				}
				add(fmt.Sprintf("looked %d times at the clock, asked with %s", strict.reads, strings.Join(moments, ", ")))
				strict.asked = nil
			}
		}
		return s.Calls(steps.Calls{
			"most":   func(n int) { f.Most = n },
			"budget": func(n int) { f.Budget = n },
			"turns":  func(script string) { f.Turns = script },
			"sift": func() {
				sifts = &sifting{fake: f}
				s.Config.Handler = sifts
			},
			"guard":  func() { s.Config.Handler = transcript.Guarded{Handler: f} },
			"reason": func(why string) { s.Config.Handler = refusing(errors.New(string(s.Bytes(why)))) },
			"strict": func(script string) {
				strict, session = newPunctual(script)
				s.Session, s.Config, f, began = session, session.config, strict.fake, strict.clock/1e9
			},
			"datagram": func(in string) string {
				out := Datagram(s.Config, 1, datagram(string(s.Bytes(in))), nil)
				return s.Said(out[min(len(out), datagramFrame):], nil)
			},
		})
	})
}
