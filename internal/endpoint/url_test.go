package endpoint

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestSafe(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:hush@h:6379/0?ns=a@b:c":                  "redis://u:xxxxx@h:6379/0?ns=a@b:c",
		"redis://:hu:sh@h":                                  "redis://:xxxxx@h",
		"redis://:h@sh@h,i":                                 "redis://:xxxxx@h,i",
		"redis://:h#sh@h":                                   "redis://:xxxxx@h",
		"redis://u:h%zzsh@h":                                "redis://xxxxx",
		"redis+sentinel://h/m?a=1&sentinel_password=hush&b": "redis+sentinel://h/m?a=1&sentinel_password=xxxxx&b",
		"etcd://u@h:2379,i:2379/p":                          "etcd://u@h:2379,i:2379/p",
		"zookeeper://h:2181?ns=x":                           "zookeeper://h:2181?ns=x",
		"unix:///run/redis.sock?db=1":                       "unix:///run/redis.sock?db=1",
		"file":                                              "file",
	} {
		if got := Safe(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for hosts, want := range map[string]string{
		"a,b:1":             "[a:7 b:1] []",
		"a:":                "[a:7] []", // a colon without a port is as none
		"[::1],[fe80::1]:2": "[[::1]:7 [fe80::1]:2] []",
		"é":                 "[é:7] []", // a resolver may know it
		"::1":               "[[::1]:7] []",
		"fe80::1%e":         "[[fe80::1%e]:7] []",
		"[fe80::1%25e]":     "[[fe80::1%e]:7] []",
		"::1,::g":           "[[::1]:7] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"a,":                "[a:7] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"a b":               "[] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"a\u2028b":          "[] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"\x9b2Ja":           "[] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"[a]":               "[] [the URL names no host: HOST:PORT,HOST:PORT expected]",
		"a:0":               "[] [a: a port is a number from 1 to 65535]",
		"a:65536,b":         "[b:7] [a: a port is a number from 1 to 65535]",
		"a:+1":              "[] [a: a port is a number from 1 to 65535]",
	} {
		list, errs := URL{Hosts: strings.Split(hosts, ",")}.Addresses(7)
		if got := fmt.Sprint(list, errs); got != want {
			t.Errorf("%q: %s, want %s", hosts, got, want)
		}
	}
}

// What is written parses to the same, and nothing panics.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"etcd://u:p@h:7,i/3?ns=x", "etcds://[::1]?ca=/a&cert=/b&key=/c", "redis://@", "redis://:p%40%3A@h", "unix:///x?db=2",
		"x://%3A:%zz@h", "://", "mysql://u@/app?socket=/s", "x://a:b?c@d",
	} {
		f.Add(s)
	}
	tree := Protocol{Scheme: "etcd", Port: 2379, Namespace: "n"}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Split(s)
		Safe(s)
		u.Addresses(1)
		target, problems := tree.Target(s)
		if err != nil {
			return
		}
		if again, err := Split(u.String()); err != nil || !reflect.DeepEqual(u, again) {
			t.Errorf("%q: %+v; %q: %+v, %v", s, u, u.String(), again, err)
		}
		if again, wrong := tree.Target(u.String()); problems == nil && (wrong != nil || !reflect.DeepEqual(target, again)) {
			t.Errorf("%q: %+v; %q: %+v, %v", s, target, u.String(), again, wrong)
		}
	})
}
