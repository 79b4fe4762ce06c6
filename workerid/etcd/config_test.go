package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// What belongs to etcd alone; package cas tests the rest of the table of bad input.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	good, open := filepath.Join(dir, "good"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{good: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte("hush\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		url  string
		o    cas.Options
		want string // what each problem begins with, in turn; "" = none
	}{
		{"etcd://h", cas.Options{}, ""},
		{"etcds://u@[::1],h:1/a/b?ns=shop", cas.Options{PasswordFile: good}, ""},
		{"redis://h", cas.Options{}, "URL: a URL begins with etcd:// or etcds://"},
		{"etcd://h:0/..?ns=a/b", cas.Options{}, "URL: h: a port|URL: the path|URL: ns="},
		{"etcd://h/a%00b", cas.Options{}, "URL: the path"},
		{"etcd://u@h", cas.Options{CAFile: good}, "CAFile: belongs to|URL: user u"},
		{"etcd://u:hush@h", cas.Options{PasswordFile: good}, "PasswordFile: there is a password"},
		{"etcd://u@h", cas.Options{PasswordFile: open}, "PasswordFile: " + open},
		{"etcds://h", cas.Options{CAFile: good}, "CAFile: " + good + ": no certificate"},
	} {
		config := Config{Settings: cas.Settings{URL: c.url, Options: c.o, Terms: workerid.Terms{Layout: "l", Min: 1, Max: 2}}}
		config.Boot = func() int64 { return 0 }
		err := config.Validate()
		if err == nil {
			err = config.ReadSecrets()
		}
		var got []string
		for _, p := range problem.Of(err) {
			got = append(got, p.Error())
		}
		ok := c.want == "" && len(got) == 0 || c.want != "" && len(got) == strings.Count(c.want, "|")+1
		for i, want := range strings.Split(c.want, "|") {
			ok = ok && (c.want == "" || strings.HasPrefix(got[i], want))
		}
		if !ok || strings.Contains(strings.Join(got, " "), "hush") {
			t.Errorf("%s: %q; want %q", c.url, got, c.want)
		}
		s, err := stores.Open(config.Settings, config.Timeout)
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: Open: %v", c.url, err)
		}
		if s != nil {
			s.Close()
		}
	}
	c := Config{Settings: cas.Settings{URL: "etcds://h/a/b?ns=shop", Terms: workerid.Terms{Lease: 18 * time.Second}}}
	target, _ := c.Target(stores.Protocol)
	link := etcdlink.TargetOf(target)
	if link.Root != "/a/b/shop/" || link.Endpoints[0] != "https://h:2379" || c.BestHeartbeat() != 1500*time.Millisecond {
		t.Errorf("%+v, %v", link, c.BestHeartbeat())
	}
	if c.URL = "etcd://h"; true {
		target, _ = c.Target(stores.Protocol)
		if link := etcdlink.TargetOf(target); link.Root != "/katsubushi/" || link.Endpoints[0] != "http://h:2379" {
			t.Errorf("%+v", link)
		}
	}
}
