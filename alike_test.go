package katsubushi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/katsubushitest"
	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A texter is what issues texts: a *katsubushi.Name or a *client.Generator.
type texter interface {
	katsubushi.Source
	Text(ctx context.Context) (string, error)
}

// alikes open what a script calls by its name: ids; few, a sequence that ends at 3; session, UUIDs; busy, where many
// ids take long.
var alikes = map[string]func(t *testing.T) map[string]any{
	"library": func(t *testing.T) map[string]any {
		c := counted(t, 983)
		c.Layout = generator.Katsubushi()
		c.Layout.TimeBits, c.Layout.SequenceBits = 41, 3
		ids := open(t, c)
		all := map[string]any{"ids": ids, "busy": ids, "copy": copied.Of(ids)}
		for _, definition := range []string{"few sequence max=3", "session uuid7"} {
			n, err := ids.Name(t.Context(), definition)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.Fields(definition)[0]] = n
		}
		return all
	},
	"client": func(t *testing.T) map[string]any {
		dial := func(addr string) *client.Client {
			c, err := client.New(client.Static(addr), client.Config{Timeout: time.Minute, DialTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		silent, err := net.Listen("tcp", "127.0.0.1:0") // it answers nothing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { silent.Close() })
		ids := dial(katsubushitest.Start(t, katsubushitest.Names("few sequence max=3", "session uuid7")))
		return map[string]any{"ids": ids, "few": ids.Generator("few"), "session": ids.Generator("session"),
			"busy": dial(silent.Addr().String())}
	},
}

var errCause = errors.New("the request was cancelled")

// outcomes are the errors that callers tell apart.
var outcomes = []struct {
	err  error
	name string
}{
	{katsubushi.ErrClosed, "closed"}, {katsubushi.ErrRefused, "refused"}, {katsubushi.ErrUnready, "unready"},
	{katsubushi.ErrCount, "count"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline"},
	{errCause, "the caller's cause"},
}

// outcome says which errors err is. A call that returns one returns nothing else.
func outcome(t *testing.T, err error, empty bool) string {
	if !empty {
		t.Errorf("an id, and %v", err)
	}
	said, late := "error", errors.Is(err, context.DeadlineExceeded)
	for _, o := range outcomes {
		// Whether a call waited already when its time was over is chance.
		if errors.Is(err, o.err) && !(late && o.err == katsubushi.ErrUnready) {
			said += ", " + o.name
		}
	}
	return said
}

// until returns the ctx of a call: "over", or "soon", or of the test if there is no word.
func until(t *testing.T, when []string) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	switch t.Cleanup(func() { cancel(nil) }); strings.Join(when, "") {
	case "over":
		cancel(errCause)
	case "soon":
		soon, end := context.WithTimeout(ctx, 50*time.Millisecond)
		t.Cleanup(end)
		return soon
	}
	return ctx
}

// calls are what a script asks for. An id that comes twice is an error; values of sequences are shown.
func calls(t *testing.T, sources map[string]any) script.Calls {
	seen, ended := map[any]bool{}, make(chan string, 1)
	fresh := func(v any) {
		if seen[v] {
			t.Errorf("%v came twice", v)
		}
		seen[v] = true
	}
	several := func(s katsubushi.Source, n int, when ...string) string {
		list, err := s.IDs(until(t, when), n)
		if err != nil {
			return outcome(t, err, list == nil)
		}
		if list[0] < 1<<40 {
			return fmt.Sprint(list)
		}
		for _, v := range list {
			fresh(v)
		}
		return fmt.Sprintf("%d, which rise: %v", len(list), slices.IsSorted(list))
	}
	return script.Calls{
		"sources": sources,
		"ID": func(s katsubushi.Source, when ...string) string {
			v, err := s.ID(until(t, when))
			if err != nil {
				return outcome(t, err, v == 0)
			}
			if v < 1<<40 {
				return fmt.Sprint(v)
			}
			fresh(v)
			return "an id"
		},
		"IDs": several,
		"begin-IDs": func(s katsubushi.Source, n int) {
			go func() { ended <- several(s, n) }()
		},
		"ended": func() string { return <-ended },
		"Text": func(s texter, when ...string) string {
			text, err := s.Text(until(t, when))
			if err != nil {
				return outcome(t, err, text == "")
			}
			fresh(text)
			return fmt.Sprint(len(text), " characters")
		},
		"Close": func(c io.Closer) error { return c.Close() },
		// of the library
		"Err": func(ids *katsubushi.IDs) (err, status string) {
			return outcome(t, ids.Err(), true), outcome(t, ids.Status().Err, true)
		},
		"take": func(names ...string) {
			var all []katsubushi.Source
			for _, name := range names {
				all = append(all, sources[name].(katsubushi.Source))
			}
			take(t, all...)
		},
		"Name": func(ids *katsubushi.IDs, definition string, when ...string) string {
			n, err := ids.Name(until(t, when), definition)
			name := strings.Fields(definition)[0]
			switch known := sources[name]; {
			case err != nil:
				return outcome(t, err, n == nil) + ": " + err.Error()
			case known != nil && known != any(n):
				return "another one"
			}
			sources[name] = n
			return n.String()
		},
	}
}

// TestCalls: what callers see, in testdata/calls.script. A program sees of the library what it sees of the client, so
// it can change from one to the other.
func TestCalls(t *testing.T) {
	for kind, open := range alikes {
		t.Run(kind, func(t *testing.T) {
			script.RunAs(t, "testdata/calls.script", kind, func(t *testing.T, play func(script.Do)) {
				c := calls(t, open(t))
				play(func(words []string) string { return c.Do(t, words) })
			})
		})
	}
}
