package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// What belongs to etcd alone; package cas tests the rest of the table of bad input.
func TestSettings(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, []byte("hush\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"etcd://h": "<nil>", "redis://h": "URL: a URL begins with etcd:// or etcds://", "etcd://u@h": "PasswordFile: " + open,
	} {
		c := Config{Settings: cas.Settings{URL: url, Terms: workerid.Terms{Layout: "l", Min: 1, Max: 2}}}
		if strings.Contains(url, "@") {
			c.PasswordFile = open
		}
		err := c.Validate()
		if err == nil {
			err = c.ReadSecrets()
		}
		s, opened := c.Open()
		for _, err := range []error{err, opened} {
			if !strings.HasPrefix(fmt.Sprint(err), want) {
				t.Errorf("%s: %v; want %s", url, err, want)
			}
		}
		if s != nil {
			s.Close()
		}
	}
	c := Config{Settings: cas.Settings{Terms: workerid.Terms{Lease: 18 * time.Second}}}
	if c.BestHeartbeat() != 1500*time.Millisecond {
		t.Error(c.BestHeartbeat())
	}
	for url, want := range map[string]string{
		"etcds://h/a/b?ns=shop": "https://h:2379 /a/b/shop/", "etcd://h": "http://h:2379 /katsubushi/",
	} {
		c.URL = url
		target, _ := c.Target(stores.Protocol)
		if link := etcdlink.TargetOf(target); link.Endpoints[0]+" "+link.Root != want {
			t.Errorf("%s: %+v", url, link)
		}
	}
}
