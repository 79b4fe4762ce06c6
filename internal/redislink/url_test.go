package redislink

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url, addr, ns, user, password, master string
		db                                    int
		seeds                                 []string
		tls                                   bool
		files                                 endpoint.Files
	}{
		{url: "redis://h", addr: "h:6379", ns: "yaraus"},
		{url: "redis://h:7/3?ns=x", addr: "h:7", ns: "x", db: 3},
		{url: "redis://:p%40ss@h/0?ns=x", addr: "h:6379", ns: "x", password: "p@ss"},
		{url: "redis://u:p@[::1]:7", addr: "[::1]:7", ns: "yaraus", user: "u", password: "p"},
		{url: "rediss://h?ns=x", addr: "h:6379", ns: "x", tls: true},
		{url: "rediss://h?ns=x&ca=/c&cert=/d&key=/e", addr: "h:6379", ns: "x", tls: true,
			files: endpoint.Files{CA: "/c", Cert: "/d", Key: "/e"}},
		{url: "rediss+sentinel://a/main?ca=/a@b", ns: "yaraus", seeds: []string{"a:26379"}, master: "main", tls: true,
			files: endpoint.Files{CA: "/a@b"}},
		{url: "unix:///run/redis.sock?db=2&ns=x", addr: "/run/redis.sock", ns: "x", db: 2},
		{url: "rediscluster://a:1,b:2,c?ns=x", ns: "x", seeds: []string{"a:1", "b:2", "c:6379"}},
		{url: "redisclusters://u:p@a", ns: "yaraus", seeds: []string{"a:6379"}, user: "u", password: "p", tls: true},
		{url: "redis+sentinel://u:p@a,b:7/main/2?ns=x", ns: "x", seeds: []string{"a:26379", "b:7"}, master: "main", db: 2,
			user: "u", password: "p"},
		{url: "redis+sentinel://a/main", ns: "yaraus", seeds: []string{"a:26379"}, master: "main"},
		{url: "redis+sentinel://[::1],[::2]:7/main", ns: "yaraus", seeds: []string{"[::1]:26379", "[::2]:7"}, master: "main"},
	} {
		got, err := Parse(c.url, "", "yaraus")
		o := got.Options
		if got.Kind == Single && !strings.HasPrefix(c.url, "unix") {
			c.seeds = []string{c.addr}
		}
		if err != nil || got.Namespace != c.ns || o.DB != c.db || o.Username != c.user || o.Password != c.password ||
			got.master != c.master ||
			!slices.Equal(got.seeds, c.seeds) || (o.TLSConfig != nil) != c.tls ||
			got.TLS != c.tls || got.Files != c.files || got.Kind == Single && o.Addr != c.addr {
			t.Errorf("%s: %+v, %v", c.url, got, err)
		}
	}
	for _, bad := range []string{
		"", "h:6379", "http://h", "redis://a,b", "redis://h/x", "redis://h?nonsense=1", "redis://h?ns=%zz",
		"redis://h?ns={x}", "redis+sentinel://a",
		"redis://h?ca=/c", "unix:///s?ca=/c", "rediss://h?cert=/c", "rediss://h?key=/c",
		"rediss://h?ca=", "rediss://h?ca=/a&ca=/b",
		"redis+sentinel:///main", "rediscluster://a/3", "rediscluster://", "redis://user:secret@h:port", "unix://?db=1",
	} {
		if got, err := Parse(bad, "", "yaraus"); err == nil {
			t.Errorf("%q was accepted: %+v", bad, got)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", bad, err)
		}
	}
	if _, err := Parse("redis://:p@h", "file", "yaraus"); err == nil {
		t.Error("two passwords were accepted")
	}
}

func TestErrorsNameTheServersWithoutSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:secret@h/0":                     "h:6379",
		"rediss://u:secret@h:7":                    "h:7 with TLS",
		"rediscluster://u:secret@a,b:2":            "a:6379,b:2",
		"rediss+sentinel://u:secret@a,b:7/main/2":  "main of a:26379,b:7 with TLS",
		"unix://u:secret@/run/redis.sock?ns=other": "/run/redis.sock",
	} {
		if got, err := Parse(url, "", "yaraus"); err != nil || got.Where() != want {
			t.Errorf("%s: %q, %v", url, got.Where(), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:7/3?ns=x", "redis+sentinel://a,b:7/main/2", "rediscluster://a:1,b:2",
		"unix:///x?db=2", "rediss://[::1]", "redis://@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Parse(s, "", "yaraus")
		if err == nil && (got.Namespace == "" || got.Kind != Single && len(got.seeds) == 0) {
			t.Errorf("%q: %+v", s, got)
		}
	})
}

func TestTLSNamesTheServerItTalksTo(t *testing.T) {
	target, err := Parse("rediss+sentinel://s1,s2/main", "", "yaraus")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		custom *tls.Config
		want   string
	}{{nil, "10.0.0.7"}, {&tls.Config{}, "10.0.0.7"}, {&tls.Config{ServerName: "redis.example"}, "redis.example"}} {
		target.Custom = c.custom
		if o, err := target.at(target.Options, "10.0.0.7:6379"); err != nil || o.TLSConfig.ServerName != c.want {
			t.Errorf("%+v, %v, want %s", o, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := target.Find(ctx, "k"); err == nil {
		t.Error("found a master")
	}
}

// A cluster whose nodes come and go for years: what is asked are those of the last answer, and
// those that the URL names.
func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	c, err := Parse("rediscluster://a,b/", "", "yaraus")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		c.learn(fmt.Sprint("n", i, ":1"), []string{fmt.Sprint("n", i, ":1"), fmt.Sprint("n", i+1, ":1"), "b:6379"})
	}
	if want := []string{"n99:1", "a:6379", "b:6379", "n100:1"}; !slices.Equal(c.seeds, want) {
		t.Errorf("%q, want %q", c.seeds, want)
	}
	other := c
	c.Doubt()
	if want := []string{"a:6379", "b:6379", "n100:1", "n99:1"}; !slices.Equal(c.seeds, want) || other.seeds[0] != "n99:1" {
		t.Errorf("%q, want %q; %q", c.seeds, want, other.seeds)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("n", i, ":1"))
	}
	if c.learn("x:1", many); len(c.seeds) != 1+2+maxNodes {
		t.Errorf("%d servers are to be asked", len(c.seeds))
	}
}
