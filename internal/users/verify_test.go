package users

import (
	"context"
	"net/netip"
	"testing"
)

// home is where logins come from.
var home = netip.MustParseAddr("10.0.0.1")

// cheap makes a user whose hash is so cheap that a file would refuse it.
func cheap(t testing.TB, name, password, may string) User {
	t.Helper()
	h := &hash{memory: 8, time: 1, lanes: 1, salt: []byte(name + "........"), sum: make([]byte, 32)}
	h.sum = h.of([]byte(password))
	return User{Name: name, Rights: rights(t, may), secret: h}
}

type verifying struct {
	*Verifier
	t *testing.T
	d *Directory
}

func verify(t *testing.T, list ...User) verifying {
	d := new(Directory)
	d.Replace(list)
	return verifying{NewVerifier(d, func() {}), t, d}
}

func (v verifying) login(user, password string) string {
	v.t.Helper()
	a, err := v.Login(context.Background(), home, []byte(user), []byte(password))
	switch {
	case err != nil:
		return err.Error()
	case a == nil:
		return "wrong"
	}
	return a.Name + " " + a.Rights().String()
}

// logs in and counts the comparisons with hashes.
func (v verifying) wants(user, password, want string, hashes uint64) {
	v.t.Helper()
	before := v.Compared()
	if got := v.login(user, password); got != want {
		v.t.Errorf("%s, %s: %s; want %s", user, password, got, want)
	}
	if n := v.Compared() - before; n != hashes {
		v.t.Errorf("%s, %s: %d comparisons, want %d", user, password, n, hashes)
	}
}
