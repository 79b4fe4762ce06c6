package etcd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
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

// A record of timestamps is, for programs that do not know them, that of a retired sequence, which they refuse.
func TestRecordsAreReadAsTheyAreWritten(t *testing.T) {
	const plain = `{"version":1,"key":"/katsubushi/x/seq/orders","cluster":"a1","birth":"b","name":"orders","start":1,` +
		`"step":2,"offset":1,"max":9223372036854775807,` +
		`"batch":0,"strict":false,"next":101,"floor":7,"retired":false,"token":"t"}`
	const timed = `{"version":1,"key":"/katsubushi/x/seq/tx","cluster":"a1","birth":"b","name":"tx","start":1,"step":1,` +
		`"offset":1,"max":9007199254740991,"batch":0,"strict":false,"next":101,"floor":7,"retired":true,` +
		`"token":"timestamps 1 katsubushi 1023 3000 active 90 T t"}`
	orders := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: counter.MaxValue}
	tx := counter.Definition{Name: "tx", Start: 1, Step: 1, Offset: 1, Max: 1<<53 - 1, Strict: true,
		Time: counter.Time{Layout: "katsubushi", Node: 1023, Ahead: counter.DefaultAhead}}
	for text, want := range map[string]record{
		plain: {counter.Record{Definition: orders, Next: 101, Floor: 7, Token: "t"}, "/katsubushi/x/seq/orders", "a1", "b"},
		timed: {counter.Record{Definition: tx, Next: 101, Floor: 7, Token: "t", Begin: 90, Term: "T"},
			"/katsubushi/x/seq/tx", "a1", "b"},
	} {
		if r, err := decode([]byte(text)); err != nil || string(r.encode()) != text || r != want {
			t.Fatalf("%+v, %v", r, err)
		}
		for range 2 { // without a term, and retired too
			want.Term, want.Begin = "", 0
			if r, err := decode(want.encode()); err != nil || r != want {
				t.Errorf("%+v, %v; want %+v", r, err, want)
			}
			want.Retired = true
		}
	}
	for good, changes := range map[string][]string{
		plain: {`"version":1`, `"version":2`, `"next":101`, `"next":100`, `"token":"t"`, `"token":""`, `"step":2`, `"step":0`,
			`"start":1`, `"start": 1`, `"floor":7`, `"floor":-7`, `{`, `{"more":1,`, `}`, ``, `"name":"orders"`, `"name":""`,
			`"offset":1`, `"offset":3`},
		timed: {" 3000 ", " 300 ", " T ", " ", "active", "", " 90 ", " 102 ", `"retired":true`, `"retired":false`,
			` t"`, ` "`, `"strict":false`, `"strict":true`, " 1023 ", " 01023 ", ` t"}`, ` t t"}`, "active ", "asleep "},
	} {
		for change := range slices.Chunk(changes, 2) {
			if r, err := decode([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
				t.Errorf("%s: %+v", change[1], r)
			}
		}
	}
	if _, err := decode([]byte(strings.Replace(timed, "timestamps 1", "timestamps 2", 1))); !errors.Is(err, errVersion) {
		t.Error(err)
	}
}
