package cas

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

var keeper = Protocol{Scheme: "keeper", Port: 2181, Beside: "own"}

func settings(url string) Settings {
	return Settings{URL: url, Terms: workerid.Terms{Layout: "l", Min: 1, Max: 3}}
}

func TestTarget(t *testing.T) {
	for url, want := range map[string]Target{
		"keeper://h":  {Hosts: []string{"h:2181"}, Namespace: "katsubushi"},
		"keeper://h/": {Hosts: []string{"h:2181"}, Namespace: "katsubushi"},
		"keepers://h:1,[::1],[fe80::1]:9/a/b/?ns=x": {Hosts: []string{"h:1", "[::1]:2181", "[fe80::1]:9"},
			Path: []string{"a", "b"}, Namespace: "x", TLS: true},
		"keeper://u:p%40%2F:%3F@h": {Hosts: []string{"h:2181"}, User: "u", Password: "p@/:?", Namespace: "katsubushi"},
		"keeper://u:p@q@h/snow%20": {},
		"keeper://u%20v:p@h/a%2Db?ns=é": {Hosts: []string{"h:2181"}, User: "u v", Password: "p", Path: []string{"a-b"},
			Namespace: "é"},
		"keeper://u:a@b@h/x": {Hosts: []string{"h:2181"}, User: "u", Password: "a@b", Path: []string{"x"},
			Namespace: "katsubushi"},
	} {
		got, problems := settings(url).Target(keeper)
		if want.Hosts == nil {
			if len(problems) == 0 {
				t.Errorf("%s was accepted: %+v", url, got)
			}
		} else if !reflect.DeepEqual(got, want) || len(problems) > 0 {
			t.Errorf("%s: %+v, %v; want %+v", url, got, problems.Err(), want)
		}
	}
	got, _ := settings("keeper://u:hush@a,b:1/x/y?ns=n").Target(keeper)
	if got.Where() != "a:2181,b:1" || got.Key("id", "0007") != "/x/y/n/id/0007" || got.Key() != "/x/y/n" {
		t.Errorf("%q, %q, %q", got.Where(), got.Key("id", "0007"), got.Key())
	}
}

// Everything that is wrong is reported at once, with its field, and no password is.
func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		url    string
		change func(*Settings)
		want   []string // each in one problem, in any order, and none beside
	}{
		{"keeper://u:hush@h", func(s *Settings) { s.Max = maxWorkers }, nil},
		{"keeper://u@h", func(s *Settings) { s.PasswordFile = "f" }, nil},
		{"keepers://h", func(s *Settings) { s.CAFile, s.CertFile, s.KeyFile = "a", "b", "c" }, nil},
		{"redis://h", nil, []string{"URL: a URL begins with keeper:// or keepers://"}},
		{"keeper://", nil, []string{"URL: the URL names no host"}},
		{"keeper://a:0,b:65536,c:x,d:", nil, []string{"URL: a: a port", "URL: b: a port", "URL: c: a port"}},
		{"keeper://h/a//b", nil, []string{`"" is empty`}},
		{"keeper://h/a/../b/.", nil, []string{`".." is relative`, `"." is relative`}},
		{"keeper://h/a%2Fb", nil, []string{"a slash"}},
		{"keeper://h/a%00b", nil, []string{"a control character"}},
		{"keeper://h/a%FFb", nil, []string{"a control character"}},
		{"keeper://h/" + long, nil, []string{"longer than 64 bytes"}},
		{"keeper://h/own", nil, []string{"/own is the store's own"}},
		{"keeper://h?ns=own", nil, []string{"/own is the store's own"}},
		{"keeper://h?ns=", nil, []string{"?ns= is empty"}},
		{"keeper://h?ns=a/b", nil, []string{"a slash"}},
		{"keeper://h?ns=..", nil, []string{"is relative"}},
		{"keeper://h?ns=a&ns=b", nil, []string{"once each"}},
		{"keeper://h?db=1", nil, []string{"?db: ns, ca, cert and key are allowed"}},
		{"keeper://h?ns=%zz", nil, []string{"cannot be read"}},
		{"keeper://u@h", nil, []string{"URL: user u has no password"}},
		{"keeper://:hush@h", nil, []string{"is not USER:PASSWORD"}},
		{"keeper://u:hush%zz@h", nil, []string{"is not USER:PASSWORD"}},
		{"keeper://u:hu/sh@h", nil, []string{"in a password write these as %2F"}},
		{"keeper://u:hu?sh@h", nil, []string{"in a password write these as %2F"}},
		{"keeper://u:hush@h", func(s *Settings) {
			s.PasswordFile = "f"
		}, []string{"PasswordFile: there is a password in the URL too"}},
		{"keeper://h", func(s *Settings) { s.PasswordFile = "f" }, []string{"PasswordFile: a password of nobody"}},
		{"keeper://h", func(s *Settings) { s.CAFile = "f" }, []string{"CAFile: belongs to connections with TLS"}},
		{"keepers://h", func(s *Settings) {
			s.KeyFile = "f"
		}, []string{"CertFile: a certificate and its key belong together"}},
		{"keeper://h", func(s *Settings) { s.Min = 9 }, []string{"Max: 3: not below"}},
		{"keeper://h", func(s *Settings) {
			s.Max = 1 + maxWorkers
		}, []string{"Max: a pool has at most 4096 worker ids, not those from 1 to 4097"}},
		{"keeper://h:0/..?ns=..", func(s *Settings) { s.Min = 9 }, []string{"URL: h: a port", "the path", "ns=..", "Max: 3"}},
	} {
		s := settings(c.url)
		if c.change != nil {
			c.change(&s)
		}
		got := problem.Of(s.Check(keeper))
		if len(got) != len(c.want) {
			t.Errorf("%s: %d problems: %v; want %q", c.url, len(got), got.Err(), c.want)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(got.Err().Error(), want) {
				t.Errorf("%s: %v; want %q", c.url, got.Err(), want)
			}
		}
		if strings.Contains(fmt.Sprint(got.Err()), "hu") {
			t.Errorf("%s: the password is in %v", c.url, got.Err())
		}
	}
}

func TestReadSecrets(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if _, err := selfsigned.Write(file("cert"), file("key"), 1); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"password": 0o600, "open": 0o644, "none": 0o600} {
		if err := os.WriteFile(file(name), []byte("hush\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	good := settings("keepers://u@h")
	good.PasswordFile, good.CAFile, good.CertFile, good.KeyFile = file("password"), file("cert"), file("cert"), file("key")
	if err := good.ReadSecrets(); err != nil {
		t.Error(err)
	}
	target, _ := good.Target(keeper)
	if password, err := target.Secret(); err != nil || password != "hush" {
		t.Errorf("%q, %v", password, err)
	}
	if c, err := target.Encryption(); err != nil || c.RootCAs == nil || c.GetClientCertificate == nil {
		t.Errorf("%+v, %v", c, err)
	}
	// The URL may name the files too.
	inURL := settings("keepers://u:hush@h?ca=" + file("cert") + "&cert=" + file("cert") + "&key=" + file("key"))
	target, _ = inURL.Target(keeper)
	if err := errors.Join(inURL.Check(keeper), inURL.ReadSecrets()); err != nil {
		t.Error(err)
	}
	if c, err := target.Encryption(); err != nil || c.RootCAs == nil || c.GetClientCertificate == nil {
		t.Errorf("%+v, %v", c, err)
	}
	inURL.CAFile, inURL.CertFile, inURL.KeyFile = file("cert"), file("cert"), file("key")
	if got := problem.Of(inURL.Check(keeper)); len(got) != 2 || got[0].Field != "CAFile" || got[1].Field != "CertFile" {
		t.Errorf("%v", got.Err())
	}
	inURL = settings("keepers://h?ca=" + file("none"))
	if got := problem.Of(inURL.ReadSecrets()); len(got) != 1 || got[0].Field != "URL" {
		t.Errorf("%v", got.Err())
	}
	bad := good
	bad.PasswordFile, bad.CAFile, bad.CertFile, bad.KeyFile = file("open"), file("none"), file("cert"), file("open")
	got := problem.Of(bad.ReadSecrets())
	if len(got) != 3 || got[0].Field != "PasswordFile" || got[1].Field != "CAFile" || got[2].Field != "KeyFile" {
		t.Errorf("%v", got.Err())
	}
	bad = good
	bad.CAFile, bad.KeyFile = file("missing"), file("password")
	if got := problem.Of(bad.ReadSecrets()); len(got) != 2 || strings.Contains(got.Err().Error(), "hush") {
		t.Errorf("%v", got.Err())
	}
}

// A daemon that comes back to its store watches first, and must not have refused by then. Newcomers know
// how often holders look.
func TestTimesThatDoNotFitAreRefused(t *testing.T) {
	if BestHeartbeat(time.Minute) != 2*time.Second || BestHeartbeat(18*time.Second) != 1500*time.Millisecond ||
		BestHeartbeat(time.Second) != time.Second {
		t.Errorf("%v, %v, %v", BestHeartbeat(time.Minute), BestHeartbeat(18*time.Second), BestHeartbeat(time.Second))
	}
	for _, c := range []struct {
		lease, heartbeat time.Duration
		want             string
	}{
		{6200 * time.Millisecond, 0, ""}, // 1.1 s + 2 x 1 s watched, 1.1 s before and 1 s after that, and a second away
		{6199 * time.Millisecond, 0,
			"Lease: 6.199s is too short for keeper: with a heartbeat of 1s a daemon that has lost its store needs up to 5.2s " +
				"to come back, so it takes at least 6.2s"},
		{5650 * time.Millisecond, 500 * time.Millisecond, ""}, // newcomers cannot know that it looks more often
		{5649 * time.Millisecond, 500 * time.Millisecond, "Lease: 5.649s is too short for keeper: with a heartbeat of 500ms"},
		{time.Minute, 2 * time.Second, ""},
		{0, 2 * time.Second, ""},
		{time.Minute, 2001 * time.Millisecond, "Heartbeat: 2.001s: at most 2s with a lease of 1m0s: newcomers"},
		{0, 3 * time.Second, "Heartbeat: 3s: at most 2s with a lease of 1m0s: newcomers"}, // by default
		{20 * time.Second, 1667 * time.Millisecond, "Heartbeat: 1.667s: at most 1.667s with a lease of 20s"},
		{time.Minute, time.Hour, "Heartbeat: 1h0m0s: at most half the lease"}, // of Terms
	} {
		s := settings("keeper://h")
		s.Lease, s.Heartbeat, s.MaxSkew = c.lease, c.heartbeat, 100*time.Millisecond
		found := problem.Of(s.Check(keeper))
		if c.want == "" && len(found) > 0 || c.want != "" &&
			(len(found) != 1 || !strings.HasPrefix(found[0].Field+": "+found[0].Err.Error(), c.want)) {
			t.Errorf("%v, %v: %v, want %q", c.lease, c.heartbeat, found, c.want)
		}
	}
}
