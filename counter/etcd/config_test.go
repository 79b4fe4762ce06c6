package etcd

import (
	"errors"
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

func TestRecordsAreReadAsTheyAreWritten(t *testing.T) {
	const good = `{"version":1,"key":"/katsubushi/x/seq/orders","cluster":"a1","birth":"b","name":"orders","start":1,` +
		`"step":2,"offset":1,"max":9223372036854775807,` +
		`"batch":0,"strict":false,"next":101,"floor":7,"retired":false,"token":"t"}`
	r, err := decode([]byte(good))
	if err != nil || string(r.encode()) != good || r.Next != 101 || r.Floor != 7 || r.Key != "/katsubushi/x/seq/orders" {
		t.Fatalf("%+v, %v", r, err)
	}
	for old, new := range map[string]string{
		`"version":1`: `"version":2`, `"next":101`: `"next":100`, `"token":"t"`: `"token":""`, `"step":2`: `"step":0`,
		`"start":1`: `"start": 1`,
		`"floor":7`: `"floor":-7`, `{`: `{"more":1,`, `}`: ``, `"name":"orders"`: `"name":""`, `"offset":1`: `"offset":3`,
	} {
		if r, err := decode([]byte(strings.Replace(good, old, new, 1))); err == nil {
			t.Errorf("%s: %+v", new, r)
		}
	}
}

// A record of timestamps is, for programs that do not know them, that of a retired sequence, which they refuse.
func TestRecordsOfTimestamps(t *testing.T) {
	const good = `{"version":1,"key":"/katsubushi/x/seq/tx","cluster":"a1","birth":"b","name":"tx","start":1,"step":1,` +
		`"offset":1,"max":9007199254740991,"batch":0,"strict":false,"next":101,"floor":7,"retired":true,` +
		`"token":"timestamps 1 katsubushi 1023 3000 active 90 T t"}`
	r, err := decode([]byte(good))
	want := record{counter.Record{Definition: counter.Definition{Name: "tx", Start: 1, Step: 1, Offset: 1,
		Max: 1<<53 - 1, Strict: true, Time: counter.Time{Layout: "katsubushi", Node: 1023, Ahead: counter.DefaultAhead}},
		Next: 101, Floor: 7, Token: "t", Begin: 90, Term: "T"}, "/katsubushi/x/seq/tx", "a1", "b"}
	if err != nil || string(r.encode()) != good || r != want {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, change := range []func(){
		func() { r.Term, r.Begin = "", 0 },
		func() { r.Retired = true },
	} {
		change()
		if again, err := decode(r.encode()); err != nil || again != r {
			t.Errorf("%+v, %v; want %+v", again, err, r)
		}
	}
	for old, new := range map[string]string{
		" 3000 ": " 300 ", " T ": " ", "active": "", " 90 ": " 102 ", `"retired":true`: `"retired":false`, " t\"": " \"",
		`"strict":false`: `"strict":true`, " 1023 ": " 01023 ", " t\"}": " t t\"}", "active ": "asleep ",
	} {
		if r, err := decode([]byte(strings.Replace(good, old, new, 1))); err == nil {
			t.Errorf("%s: %+v", new, r)
		}
	}
	if _, err := decode([]byte(strings.Replace(good, "timestamps 1", "timestamps 2", 1))); !errors.Is(err, errVersion) {
		t.Error(err)
	}
}
