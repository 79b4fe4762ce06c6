package redislink

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestURLs: no error tells a password.
func TestURLs(t *testing.T) {
	calls := steps.Calls{"parse": func(url string, file ...string) (string, error) {
		got, err := Parse(url, strings.Join(file, ""), "yaraus")
		if err != nil {
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: the error tells the password: %v", url, err)
			}
			return "", err
		}
		o := got.Options
		said := fmt.Sprintf("%s: seeds %v, namespace %s, database %d", got.Where(), got.seeds, got.Namespace, o.DB)
		for _, f := range [][2]string{{"address", o.Addr}, {"user", o.Username}, {"password", o.Password}} {
			if f[1] != "" && (got.Kind == Single || f[0] != "address") {
				said += "\n- " + f[0] + " " + f[1]
			}
		}
		if o.TLSConfig != nil || got.TLS {
			said += fmt.Sprintf("\n- TLS %v %v %+v", o.TLSConfig != nil, got.TLS, got.Files)
		}
		return said, nil
	}}
	steps.Run(t, "testdata/urls.txt", func(*testing.T) steps.Calls { return calls })
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
