package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestURLs: what a right one says. What is wrong with others stands in the transcripts of the commands.
func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://a":                       "http://a:2379 /katsubushi/default/",
		"etcd://a:1,[::1],b:2/":          "http://a:1,http://[::1]:2379,http://b:2 /katsubushi/default/",
		"etcds://a/one/two?ns=shop":      "https://a:2379 /one/two/shop/",
		"etcds://a?ca=/c&cert=/d&key=/e": "https://a:2379 /katsubushi/default/",
		"etcd://a?ns=a/b":                "http://a:2379 /katsubushi/a/b/", // more of the prefix
		"etcd://u%40corp:hush@a":         "http://a:2379 /katsubushi/default/ of u@corp with hush",
	} {
		x, err := Config{URL: url}.target()
		l := etcdlink.TargetOf(x)
		got := strings.Join(l.Endpoints, ",") + " " + l.Root
		if l.User != "" {
			password, _ := l.Password()
			got += " of " + l.User + " with " + password
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", url, got, err, want)
		}
	}
}

// TestRecords: records are read as they are written, and nothing else is.
func TestRecords(t *testing.T) {
	script.Run(t, "testdata/records.script", func(t *testing.T, play func(script.Do)) {
		text := ""
		read := func(text string) (string, error) {
			r, err := decode([]byte(text))
			if errors.Is(err, errVersion) {
				err = fmt.Errorf("of a later version: %w", err)
			}
			if err == nil && string(r.encode()) != text {
				t.Errorf("%s is written as %s", text, r.encode())
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%+v", r), nil
		}
		calls := script.Calls{
			// record TEXT: reads it; with OLD NEW: what becomes of it if that stands there
			"record": func(words []string) (string, error) {
				text = strings.Join(words, " ")
				return read(text)
			},
			"with": func(old, new string) (string, error) { return read(strings.Replace(text, old, new, 1)) },
			// ended: without a term; retired: that too
			"ended": func(retired ...string) (string, error) {
				r, err := decode([]byte(text))
				r.Term, r.Begin, r.Retired = "", 0, len(retired) > 0
				said, err2 := read(string(r.encode()))
				return said, errors.Join(err, err2)
			},
		}
		play(func(words []string) string { return calls.Do(t, words) })
	})
}
