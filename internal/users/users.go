// Package users holds who may log in and what each of them may do: the model, the lines in which users
// are written, the two places where they are kept (a file, or keys that all daemons share), and the
// verification of passwords.
//
// The guarantee: a user may do only what one of the user's patterns permits, and a change reaches users who have
// logged in as soon as Directory.Replace has it. Not promised: that a short password cannot be guessed by
// those who can read the file.
//
// The daemon compares passwords in a process of its own (Linux), which has a low priority and ends when it is
// idle. In a thread of the daemon a comparison delays event loops by several milliseconds, and Go's runtime,
// which stops all threads now and then, would wait for a thread of low priority.
package users

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Right is a set of things that a user may do with a key.
type Right uint8

const (
	Get   Right = 1 << iota // ask for ids: get, GET, MGET, /id
	Incr                    // ask for ranges of ids: incr, ma, INCREMENT, INCR, INCRBY
	Admin                   // change the sequence, over the admin port; on * everything there
)

// Issue is what users may do whose lines have no rights.
const Issue = Get | Incr

var rightNames = []string{"get", "incr", "admin"}

func (r Right) String() string {
	var names []string
	for i, name := range rightNames {
		if r>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// parseRight parses names of rights with commas between. There must be one at least.
func parseRight(text string) (r Right, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(rightNames, name)
		if i < 0 {
			return 0, fmt.Errorf("right %.40q: %s allowed, with commas between", name, strings.Join(rightNames, ", "))
		}
		r |= 1 << i
	}
	return r, nil
}

// Limits.
const (
	MaxGrants  = 64  // patterns of one user
	maxPattern = 250 // bytes, as of a key
	maxName    = 64  // bytes, of users with a hash or a token
)

// A grant permits something for the keys that match a pattern.
type grant struct {
	pattern string // * stands for any number of any bytes
	may     Right
}

// Rights are what a user may do. What no pattern permits is denied; the rights of several patterns that
// match add up. The zero value permits nothing. Rights do not change; they may be shared.
type Rights struct {
	grants []grant // no pattern twice
	all    Right   // of every key
}

// ParseRights parses patterns and their rights: `orders*=get,incr;*=get`. Empty text permits nothing.
func ParseRights(text string) (Rights, error) {
	var r Rights
	if text == "" {
		return r, nil
	}
	for entry := range strings.SplitSeq(text, ";") {
		i := strings.LastIndexByte(entry, '=')
		if i < 0 {
			return Rights{}, fmt.Errorf("%.60q: PATTERN=RIGHT,RIGHT expected", entry)
		}
		may, err := parseRight(entry[i+1:])
		if err == nil {
			err = checkPattern(entry[:i])
		}
		if err != nil {
			return Rights{}, err
		}
		r = r.with(entry[:i], may)
	}
	if len(r.grants) > MaxGrants {
		return Rights{}, fmt.Errorf("%d patterns: %d allowed", len(r.grants), MaxGrants)
	}
	return r, nil
}

func checkPattern(p string) error {
	if p == "" || len(p) > maxPattern {
		return fmt.Errorf("a pattern of %d bytes: 1 to %d allowed", len(p), maxPattern)
	}
	for _, c := range []byte(p) {
		if c <= ' ' || c == 0x7f || c == ';' {
			return fmt.Errorf("pattern %.60q: no spaces, control characters and semicolons allowed", p)
		}
	}
	return nil
}

// everything returns rights that permit may for all keys.
func everything(may Right) Rights { return Rights{}.with("*", may) }

// with returns rights that permit more.
func (r Rights) with(pattern string, may Right) Rights {
	grants := slices.Clone(r.grants)
	if i := slices.IndexFunc(grants, func(g grant) bool { return g.pattern == pattern }); i >= 0 {
		grants[i].may |= may
	} else {
		grants = append(grants, grant{pattern, may})
	}
	return rightsOf(grants)
}

func rightsOf(grants []grant) Rights {
	r := Rights{grants: grants}
	for _, g := range grants {
		if strings.Trim(g.pattern, "*") == "" {
			r.all |= g.may
		}
	}
	return r
}

// Plus returns rights that permit what r or more does.
func (r Rights) Plus(more Rights) (Rights, error) {
	for _, g := range more.grants {
		r = r.with(g.pattern, g.may)
	}
	if len(r.grants) > MaxGrants {
		return Rights{}, fmt.Errorf("%d patterns: %d allowed", len(r.grants), MaxGrants)
	}
	return r, nil
}

// Minus returns r without the rights of less, pattern by pattern. A right that r does not give with
// exactly this pattern is an error: another pattern may still give it.
func (r Rights) Minus(less Rights) (Rights, error) {
	grants := slices.Clone(r.grants)
	for _, l := range less.grants {
		i := slices.IndexFunc(grants, func(g grant) bool { return g.pattern == l.pattern })
		if i < 0 || grants[i].may&l.may != l.may {
			return Rights{}, fmt.Errorf("there is no %s=%v to take away: the rights are %q", l.pattern, l.may, r)
		}
		grants[i].may &^= l.may
	}
	return rightsOf(slices.DeleteFunc(grants, func(g grant) bool { return g.may == 0 })), nil
}

// String returns what ParseRights parses.
func (r Rights) String() string {
	entries := make([]string, len(r.grants))
	for i, g := range r.grants {
		entries[i] = g.pattern + "=" + g.may.String()
	}
	return strings.Join(entries, ";")
}

// All returns what every key permits.
func (r *Rights) All() Right { return r.all }

// Permit reports whether a key permits all of may.
func (r *Rights) Permit(key []byte, may Right) bool {
	have := r.all
	for i := 0; may&^have != 0 && i < len(r.grants); i++ {
		if g := &r.grants[i]; g.may&^have != 0 && match(g.pattern, key) {
			have |= g.may
		}
	}
	return may&^have == 0
}

// match reports whether a pattern matches the whole key. It takes len(pattern)*len(key) steps at most.
func match(pattern string, key []byte) bool {
	star, from := -1, 0 // the last star, and where the key went on behind it
	p := 0
	for k := 0; k < len(key); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, k
			p++
		case p < len(pattern) && pattern[p] == key[k]:
			p++
			k++
		case star >= 0: // the star takes one byte more
			from++
			p, k = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// A User may log in with a secret, and then has rights.
type User struct {
	Name   string
	Rights Rights

	secret secret
}

// Kind says how the user logs in: "password" (kept as a hash), "token" or "plain password".
func (u User) Kind() string { return u.secret.kind() }

// String describes the user without the secret.
func (u User) String() string { return fmt.Sprintf("%s (%s) %q", u.Name, u.Kind(), u.Rights) }

// GoString is String.
func (u User) GoString() string { return u.String() }

// CheckName returns what is wrong with the name of a user that has a hash or a token.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || strings.Trim(name, nameBytes) != "" {
		return fmt.Errorf("user %.80q: 1 to %d letters, digits and \"_.@-\" allowed", name, maxName)
	}
	return nil
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-"

// WithPassword returns the user with another password, of which only a hash is kept. It takes some
// 30 ms and 19 MiB.
func (u User) WithPassword(password []byte) (User, error) {
	if err := CheckName(u.Name); err != nil {
		return User{}, err
	}
	if len(password) == 0 || len(password) > MaxPassword {
		return User{}, fmt.Errorf("a password of %d bytes: 1 to %d allowed", len(password), MaxPassword)
	}
	if bytes.IndexByte(password, 0) >= 0 {
		return User{}, errors.New("a password with a NUL in it: no client could send it")
	}
	u.secret = newHash(password)
	return u, nil
}

// WithToken returns the user with a new token, and the token, which is not kept. A client sends it as the
// password, or over HTTP as a bearer token.
func (u User) WithToken() (User, string, error) {
	if err := CheckName(u.Name); err != nil {
		return User{}, "", err
	}
	token, s := newToken()
	u.secret = s
	return u, token, nil
}

// hashed returns a user of a plain line in the new form, which can hold other rights than Issue on *.
func (u User) hashed() (User, error) {
	if p, ok := u.secret.(plain); ok {
		return u.WithPassword([]byte(p))
	}
	return u, nil
}
