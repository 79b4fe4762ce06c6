package etcd_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// Texts tells every change, also one that somebody else made by hand, and Edit loses none.
func TestTexts(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	s := open(t, etcdtest.URL(t, m), patient)
	define(t, s)
	now := ""
	wants := func(want map[string]string) {
		t.Helper()
		next, texts, err := s.Texts(bg, "user", now)
		if err != nil || next == now || !maps.Equal(texts, want) {
			t.Fatalf("%v, %q after %q, %v; want %v", texts, next, now, err, want)
		}
		now = next
		if same, texts, err := s.Texts(bg, "user", now); err != nil || same != now || texts != nil {
			t.Fatalf("nothing has changed: %v, %q, %v", texts, same, err)
		}
	}
	edit := func(name, want, text string) {
		t.Helper()
		err := s.Edit(bg, "user", name, func(old string) (string, error) {
			if old != want {
				t.Errorf("%s was %q, want %q", name, old, want)
			}
			return text, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wants(map[string]string{})
	edit("ann", "", "1")
	edit("bob", "", "2")
	wants(map[string]string{"ann": "1", "bob": "2"})
	edit("ann", "1", "3")
	wants(map[string]string{"ann": "3", "bob": "2"})
	edit("ann", "3", "")
	wants(map[string]string{"bob": "2"})
	edit("eve", "", "")
	m.Put("/katsubushi/"+etcdtest.Namespace(t)+"/user/dan", "4")
	wants(map[string]string{"bob": "2", "dan": "4"})
	refusal := errors.New("no")
	if err := s.Edit(bg, "user", "bob", func(string) (string, error) { return "x", refusal }); err != refusal {
		t.Error(err)
	}

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				err := s.Edit(bg, "count", "n", func(old string) (string, error) {
					n := 0
					fmt.Sscan(old, &n)
					return fmt.Sprint(n + 1), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, texts, err := s.Texts(bg, "count", ""); err != nil || texts["n"] != "40" {
		t.Errorf("40 edits at once: %v, %v", texts, err)
	}
	m.Kill()
	short := open(t, etcdtest.URL(t, m), 100*time.Millisecond)
	if _, _, err := short.Texts(bg, "user", ""); !short.Unavailable(err) {
		t.Error(err)
	}
}
