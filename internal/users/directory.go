package users

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"sync/atomic"
)

// An Account is a user that is known at the moment. Sessions keep it and look at its rights.
type Account struct {
	Name   string
	rights atomic.Pointer[Rights]
}

// Rights returns what the user may do now, or nil if the user was removed: then it stays nil. Any
// goroutine may call it; the result does not change.
func (a *Account) Rights() *Rights { return a.rights.Load() }

// A Directory is the set of users that may log in now. Any goroutine may read it.
type Directory struct {
	replacing sync.Mutex
	set       atomic.Pointer[set] // nil = the users have not been read yet
}

// A set is an immutable table of users.
type set struct {
	accounts map[string]*Account
	plain    []plainLogin
	tokens   map[string]token   // by user
	bearers  map[token]*Account // by token
	hashes   map[string]*hash   // by user
	decoy    *hash              // compared for unknown users; nil = there are no hashes
}

// A plainLogin holds digests. They have the same length for every input, so comparing always takes the
// same time.
type plainLogin struct {
	name, password [sha256.Size]byte
	account        *Account
}

// Replace makes these the users, all at once. Users that stay keep their Accounts, and remembered
// comparisons of passwords that stay hold.
func (d *Directory) Replace(list []User) {
	d.replacing.Lock()
	defer d.replacing.Unlock()
	old := d.set.Load()
	if old == nil {
		old = &set{}
	}
	s := &set{accounts: map[string]*Account{}, tokens: map[string]token{}, bearers: map[token]*Account{},
		hashes: map[string]*hash{}}
	for _, u := range list {
		a := old.accounts[u.Name]
		if a == nil {
			a = &Account{Name: u.Name}
		}
		s.accounts[u.Name] = a
		if now := a.rights.Load(); now == nil || now.String() != u.Rights.String() {
			a.rights.Store(&u.Rights)
		}
		switch secret := u.secret.(type) {
		case plain:
			s.plain = append(s.plain, plainLogin{sha256.Sum256([]byte(u.Name)), sha256.Sum256([]byte(secret)), a})
		case token:
			s.tokens[u.Name], s.bearers[secret] = secret, a
		case *hash:
			if h := old.hashes[u.Name]; h != nil && h.text() == secret.text() {
				secret = h // the key of what is remembered
			}
			s.hashes[u.Name] = secret
			if s.decoy == nil || secret.work() > s.decoy.work() {
				s.decoy = secret.decoy()
			}
		}
	}
	if old.decoy != nil && s.decoy != nil && old.decoy.work() == s.decoy.work() {
		s.decoy = old.decoy
	}
	d.set.Store(s)
	for name, a := range old.accounts {
		if s.accounts[name] == nil {
			a.rights.Store(nil)
		}
	}
}

// decoy returns a hash that costs as much as h, of a password that nobody knows.
func (h *hash) decoy() *hash {
	d := *h
	d.salt, d.sum = make([]byte, len(h.salt)), make([]byte, len(h.sum))
	rand.Read(d.salt)
	rand.Read(d.sum)
	return &d
}

// Users returns how many users there are; known = false: they have not been read yet.
func (d *Directory) Users() (n int, known bool) {
	s := d.set.Load()
	if s == nil {
		return 0, false
	}
	return len(s.accounts), true
}

// Account returns the user of a name, or nil.
func (d *Directory) Account(name string) *Account {
	s := d.set.Load()
	if s == nil {
		return nil
	}
	return s.accounts[name]
}

// Bearer returns the user that has a token, or nil. It costs one SHA-256.
func (d *Directory) Bearer(text []byte) *Account {
	s := d.set.Load()
	if s == nil {
		return nil
	}
	return s.bearers[sha256.Sum256(text)]
}

// fast decides by what costs next to nothing: plain passwords, which are all compared always, and tokens.
func (s *set) fast(name, password []byte) (found *Account) {
	n, p := sha256.Sum256(name), sha256.Sum256(password)
	for i := range s.plain {
		u := &s.plain[i]
		if subtle.ConstantTimeCompare(u.name[:], n[:])&subtle.ConstantTimeCompare(u.password[:], p[:]) == 1 {
			found = u.account
		}
	}
	if t, ok := s.tokens[string(name)]; ok && t.is(password) {
		found = s.accounts[string(name)]
	}
	return found
}
