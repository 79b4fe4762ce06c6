package users

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"testing"
)

func rights(t testing.TB, text string) Rights {
	t.Helper()
	r, err := ParseRights(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}

func TestRightsAddUpAndTheRestIsDenied(t *testing.T) {
	r := rights(t, "orders*=get;*-eu=incr;a*b*c=get,incr,admin;shop:x=y=get")
	for _, c := range []struct {
		key  string
		want Right
	}{
		{"orders", Get}, {"orders-us", Get}, {"orders-eu", Get | Incr}, {"order", 0}, {"-eu", Incr}, {"eu", 0}, {"", 0},
		{"xorders", 0},
		{"abc", Get | Incr | Admin}, {"a-b-bc-c", Get | Incr | Admin}, {"ab", 0}, {"ac", 0}, {"abcd", 0}, {"shop:x=y", Get},
		{"shop:x", 0},
	} {
		for _, one := range []Right{Get, Incr, Admin} {
			if got := r.Permit([]byte(c.key), one); got != (c.want&one != 0) {
				t.Errorf("%q, %v: %v", c.key, one, got)
			}
		}
		if c.want != 0 && !r.Permit([]byte(c.key), c.want) {
			t.Errorf("%q: not %v together", c.key, c.want)
		}
	}
	if none := rights(t, ""); none.Permit([]byte("x"), Get) || none.All() != 0 || r.All() != 0 {
		t.Error("what nothing permits is permitted")
	}
	if all := rights(t, "x=incr;**=get"); all.All() != Get || !all.Permit(nil, Get) || all.Permit([]byte("y"), Incr) {
		t.Errorf("%v: %v", all, all.All())
	}
}

func TestRightsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"orders":                          "PATTERN=RIGHT,RIGHT expected",
		"orders=":                         `right ""`,
		"orders=get,put":                  `right "put": get, incr, admin allowed`,
		"orders=get;":                     "PATTERN=RIGHT",
		"=get":                            "pattern of 0 bytes",
		strings.Repeat("x", 251) + "=get": "pattern of 251 bytes",
		"a b=get":                         "no spaces",
		"a\tb=get":                        "no spaces",
		manyPatterns(MaxGrants + 1):       "65 patterns: 64 allowed",
	} {
		if r, err := ParseRights(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v", text, r, err)
		}
	}
	rights(t, manyPatterns(MaxGrants))
}

func manyPatterns(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("p%d=get", i))
	}
	return strings.Join(list, ";")
}

func TestRightsPlusAndMinus(t *testing.T) {
	r := rights(t, "a*=get;*=get")
	more, err := r.Plus(rights(t, "a*=incr;b=admin"))
	if err != nil || more.String() != "a*=get,incr;*=get;b=admin" {
		t.Errorf("%v %v", more, err)
	}
	if r.String() != "a*=get;*=get" {
		t.Errorf("the old rights are now %v", r)
	}
	less, err := more.Minus(rights(t, "a*=get;*=get"))
	if err != nil || less.String() != "a*=incr;b=admin" || less.All() != 0 {
		t.Errorf("%v %v", less, err)
	}
	for _, text := range []string{"a*=get", "c=get", "a*=incr,get"} {
		if _, err := less.Minus(rights(t, text)); err == nil || !strings.Contains(err.Error(), "to take away") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := rights(t, manyPatterns(MaxGrants)).Plus(rights(t, "z=get")); err == nil {
		t.Error("more patterns than allowed")
	}
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

func TestLines(t *testing.T) {
	text := "ann:secret\r\n\nbob:with:colon\n# no:comment\ncat:" + someHash + ":orders:eu*=get,incr;*=get\ndan:" +
		someToken + ":\neve: no newline"
	list, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range list {
		got = append(got, fmt.Sprintf("%v %s", u, u.line()))
	}
	want := []string{
		`ann (plain password) "*=get,incr" ann:secret`,
		`bob (plain password) "*=get,incr" bob:with:colon`,
		`# no (plain password) "*=get,incr" # no:comment`,
		`cat (password) "orders:eu*=get,incr;*=get" cat:` + someHash + `:orders:eu*=get,incr;*=get`,
		`dan (token) "" dan:` + someToken + `:`,
		`eve (plain password) "*=get,incr" eve: no newline`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if list, err := parse([]byte("ann:old\nann:new\nann:old\n")); err != nil || len(list) != 3 {
		t.Errorf("several plain passwords: %v %v", list, err)
	}
}

func TestEverythingWrongIsToldWithItsLine(t *testing.T) {
	costs := func(m, t int) string {
		return fmt.Sprintf("u:$argon2id$v=19$m=%d,t=%d,p=1$c2FsdHNhbHQ$%s:", m, t, strings.Repeat("A", 43))
	}
	for line, want := range map[string]string{
		"bob":                             "user:password expected",
		":secret":                         "a user name of 0 bytes",
		"ann:":                            "a password of 0 bytes",
		"ann:" + strings.Repeat("x", 257): "a password of 257 bytes",
		strings.Repeat("x", 257) + ":y":   "a user name of 257 bytes",
		"ann:$2b$12$hushhush":             "a hash of another kind",
		"ann:$6$salt$hushhush":            "a hash of another kind",
		"ann:$argon2i$v=19$hushhush":      "a hash of another kind",
		"ann:$apr1$hushhush":              "a hash of another kind",
		"ann:{SSHA}hushhush":              "a hash of another kind",
		"ann:" + someHash:                 "no rights: after the hash comes",
		"ann:" + someHash + ":x":          "PATTERN=RIGHT,RIGHT expected",
		"ann:" + someHash + ":x=put":      `right "put"`,
		"a b:" + someHash + ":x=get":      "letters, digits",
		"ann:$argon2id$hushhush:x=get":    "an argon2id hash is $argon2id$v=19",
		"ann:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$AA:":                               "an argon2id hash of 1 bytes",
		"ann:$argon2id$v=19$m=19456,t=2,p=1$c2Fs$" + strings.Repeat("A", 43) + ":":         "with a salt of 3",
		"ann:$argon2id$v=16$m=19456,t=2,p=1$c2FsdHNhbHQ$" + strings.Repeat("A", 43) + ":":  "version 16",
		"ann:$argon2id$v=19$m=19456,t=2,p=17$c2FsdHNhbHQ$" + strings.Repeat("A", 43) + ":": "p=17",
		"ann:$argon2id$v=19$m=19456,t=2,p=0$c2FsdHNhbHQ$" + strings.Repeat("A", 43) + ":":  "p=0",
		"ann:$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$" + strings.Repeat("A", 42) + "B:": "base64",
		costs(1<<20+1, 1):                  "more than m=1048576 (1 GiB)",
		costs(1<<20, 5):                    "would stop the daemon",
		costs(7167, 100):                   "too cheap",
		costs(19456, 1):                    "too cheap",
		costs(19456, 0):                    "too cheap",
		"ann:$token-sha256$hushhush:x=get": "64 hexadecimal digits",
	} {
		_, err := parse([]byte("ok:ok\n\n" + line + "\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%.60q: %v; want %s", line, err, want)
		}
	}
	for _, text := range []string{"", "\n\n"} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "no users") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, ok := range []string{costs(7168, 5), costs(47104, 1), costs(1<<20, 4), "u:$ecret", "u:$argon2idx", "u:{}"} {
		if _, err := parse([]byte(ok)); err != nil {
			t.Errorf("%.60s: %v", ok, err)
		}
	}
	_, err := parse([]byte("a:" + someHash + ":*=get\nb\na:" + someHash + ":*=get\na:plain\np:1\np:" + someToken +
		":\nc:$1$x\n"))
	want := `line 2: user:password expected
line 3: user "a" is in line 1 already
line 4: user "a" is in line 1 already
line 6: user "p" is in line 5 already
line 7: a hash of another kind: argon2id allowed, which ` + "`katsubushi user add` makes"
	if err == nil || err.Error() != want {
		t.Errorf("all together:\n%v", err)
	}
	if _, err := parse([]byte(strings.Repeat("x\n", 300))); strings.Count(err.Error(), "\n") != 100 ||
		!strings.HasSuffix(err.Error(), "and 200 more lines") {
		t.Errorf("300 problems:\n%v", err)
	}
}

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

// TestExactLimits: of names, salts and hashes, one byte below the limit, at it, and above.
func TestExactLimits(t *testing.T) {
	name := func(n int) string { return strings.Repeat("n", n) }
	hashOf := func(salt, sum int) string {
		b64 := base64.RawStdEncoding
		return "ann:$argon2id$v=19$m=19456,t=2,p=1$" + b64.EncodeToString(make([]byte, salt)) + "$" +
			b64.EncodeToString(make([]byte, sum)) + ":*=get"
	}
	for line, ok := range map[string]bool{
		name(63) + ":" + someHash + ":*=get": true, name(64) + ":" + someHash + ":*=get": true,
		name(65) + ":" + someHash + ":*=get": false,
		name(255) + ":secret":                true, name(256) + ":secret": true, name(257) + ":secret": false,
		hashOf(7, 32): false, hashOf(8, 32): true, hashOf(9, 32): true,
		hashOf(63, 32): true, hashOf(64, 32): true, hashOf(65, 32): false,
		hashOf(16, 15): false, hashOf(16, 16): true, hashOf(16, 17): true,
		hashOf(16, 63): true, hashOf(16, 64): true, hashOf(16, 65): false,
	} {
		if _, err := parse([]byte(line + "\n")); (err == nil) != ok {
			t.Errorf("%.120s: %v", line, err)
		}
	}
	for n, ok := range map[int]bool{0: false, 1: true, 63: true, 64: true, 65: false} {
		if err := CheckName(name(n)); (err == nil) != ok {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
}
