package zookeeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

func config(url string) Config {
	c := Config{Settings: cas.Settings{URL: url, Terms: workerid.Terms{Layout: "l", Min: 1, Max: 3}}}
	c.Boot = func() int64 { return 1 }
	return c
}

// What all stores with a compare-and-set refuse is tested in package cas; this is ZooKeeper's own.
func TestSettings(t *testing.T) {
	if !slices.Equal(Schemes(), []string{"zookeeper", "zookeepers"}) {
		t.Errorf("%q", Schemes())
	}
	c := config("zookeeper://u:hush@a,b:1/c?ns=n")
	s, err := stores.Config(c.Settings, c.Timeout, true)
	if err != nil || s.Where != "a:2181,b:1" || s.Path != "/c/n/" {
		t.Errorf("%q, %q, %v", s.Where, s.Path, err)
	}
	if h := c.BestHeartbeat(); h != 2*time.Second {
		t.Errorf("heartbeat %v", h)
	}
	for url, want := range map[string]string{
		"etcd://h":                         "zookeeper:// or zookeepers://",
		"zookeeper://u:hush@h/zookeeper/x": "/zookeeper is the store's own",
	} {
		c := config(url)
		_, open := c.Open()
		_, admin := c.OpenAdmin()
		for _, err := range []error{c.Validate(), open, admin} {
			if !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "hush") {
				t.Errorf("%s: %v; want %q", url, err, want)
			}
		}
		if found := problem.Of(c.Validate()); len(found) == 0 || found[0].Field != "URL" {
			t.Errorf("%s: %v", url, found)
		}
	}
}
