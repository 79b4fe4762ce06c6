package users

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

func rights(t testing.TB, text string) Rights {
	t.Helper()
	r, err := ParseRights(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}

var repeated = regexp.MustCompile(`\{(\d+)\*([^}]+)\}`)

// TestLinesAndRights: what is wrong is told with its line and without a secret, what is right is written again.
func TestLinesAndRights(t *testing.T) {
	whole := func(text string) string {
		text = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", "HASH", someHash, "TOKEN", someToken).Replace(text)
		return repeated.ReplaceAllStringFunc(text, func(m string) string {
			n, _ := strconv.Atoi(repeated.FindStringSubmatch(m)[1])
			return strings.Repeat(repeated.FindStringSubmatch(m)[2], n)
		})
	}
	two := func(f func(r, other Rights) (Rights, error)) any {
		return func(text, other string) (Rights, error) {
			r, more := rights(t, whole(text)), rights(t, other)
			got, err := f(r, more)
			if r.String() != whole(text) {
				t.Errorf("the old rights are now %v", r)
			}
			return got, err
		}
	}
	calls := steps.Calls{
		"parse": func(text string) (string, error) {
			list, err := parse([]byte(whole(text)))
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", text, err)
			}
			if said := strings.Split(fmt.Sprint(err), "\n"); len(said) > 20 {
				err = fmt.Errorf("%s\n.. and so on, %d lines\n%s", said[0], len(said), said[len(said)-1])
			}
			var said []string
			for _, u := range list {
				said = append(said, fmt.Sprintf("%.200v %.200s", u, u.line()))
			}
			return strings.Join(said, "\n"), err
		},
		"name": func(name string) error { return CheckName(whole(name)) },
		"rights": func(text string) (string, error) {
			r, err := ParseRights(whole(text))
			return fmt.Sprintf("%.80v; of all names %v", r, r.All()), err
		},
		"permit": func(text string, keys ...string) string {
			var said []string
			r := rights(t, text)
			for _, key := range keys {
				var can []string
				for _, one := range []Right{Get, Incr, Admin, Get | Incr, Get | Incr | Admin} {
					if r.Permit([]byte(key), one) {
						can = append(can, fmt.Sprint(one))
					}
				}
				said = append(said, key+": "+strings.Join(can, " "))
			}
			return strings.Join(said, "\n")
		},
		"plus": two(Rights.Plus), "minus": two(Rights.Minus),
		"patterns": func(n int) error {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf("p%d=get", i))
			}
			r, err := ParseRights(strings.Join(list, ";"))
			_, more := r.Plus(rights(t, "z=get"))
			return errors.Join(err, more)
		},
	}
	steps.Run(t, "testdata/lines.txt", func(*testing.T) steps.Calls { return calls })
}

// FuzzMatch compares with path.Match, which knows more signs than the star.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*", "axbx")
	f.Add("**a", "aa")
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if strings.ContainsAny(pattern+key, "/?[]\\") || strings.ToValidUTF8(pattern+key, "") != pattern+key {
			return
		}
		want, err := path.Match(pattern, key)
		if err != nil {
			return
		}
		if got := match(pattern, []byte(key)); got != want {
			t.Errorf("%q, %q: %v", pattern, key, got)
		}
	})
}

const (
	someHash  = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	someToken = "$token-sha256$0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte("ann:secret\nbob:with:colon\r\n"))
	f.Add([]byte("\n:\n"))
	f.Add([]byte("cat:" + someHash + ":orders*=get,incr;*=admin\ndan:" + someToken + ":\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parse(text)
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%d users, %v", len(list), err)
		}
		var again []byte
		for _, u := range list {
			again = append(again, u.line()+"\n"...)
		}
		second, err := parse(again)
		if len(list) > 0 && err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		for i, u := range second {
			if u.String() != list[i].String() || u.line() != list[i].line() {
				t.Fatalf("%v became %v", list[i], u)
			}
		}
	})
}

func TestSecrets(t *testing.T) {
	u, err := User{Name: "ann", Rights: rights(t, "*=get")}.WithPassword([]byte("sesame"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseLine(u.line())
	if err != nil {
		t.Fatal(err)
	}
	h := again.secret.(*hash)
	if !h.is([]byte("sesame")) || h.is([]byte("Sesame")) || h.is(nil) {
		t.Error("the hash compares wrongly")
	}
	// Made by the reference implementation: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1 -l 24
	ref, err := parseLine("r:$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc:")
	if err != nil || !ref.secret.(*hash).is([]byte("password")) {
		t.Errorf("the reference's hash: %v", err)
	}
	v, text, err := User{Name: "bob"}.WithToken()
	if err != nil || len(text) != len(tokenPrefix)+43 {
		t.Fatalf("%q %v", text, err)
	}
	back, err := parseLine(v.line())
	if tok, ok := back.secret.(token); err != nil || !ok || !tok.is([]byte(text)) || tok.is([]byte(text+"x")) {
		t.Errorf("%v %v", back, err)
	}
	for _, s := range []string{fmt.Sprint(u), fmt.Sprintf("%+v %#v", u, v)} {
		if strings.Contains(s, "argon2") || strings.Contains(s, "sha256") {
			t.Errorf("%s shows the secret", s)
		}
	}
	for _, bad := range []string{"", "a b", "a:b", "a/b", strings.Repeat("x", 65)} {
		if _, err := (User{Name: bad}).WithPassword([]byte("x")); err == nil {
			t.Errorf("%q is a name", bad)
		}
	}
	for _, bad := range [][]byte{nil, bytes.Repeat([]byte("x"), 257), []byte("a\x00b")} {
		if _, err := (User{Name: "x"}).WithPassword(bad); err == nil {
			t.Errorf("%.10q is a password", bad)
		}
	}
}
