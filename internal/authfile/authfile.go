// Package authfile reads the users that may ask for ids from a file in memcached's own format: one
// line `user:password` each.
package authfile

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// Limits, in bytes.
const (
	MaxFile     = 64 << 10
	MaxUser     = 256
	MaxPassword = 256
)

// A File holds the users from the last successful read. Allows may be called while Reload runs.
type File struct {
	path  string
	users atomic.Pointer[[]user]
}

// A user holds digests. They have the same length for every input, so comparing always takes the
// same time.
type user struct{ name, password [sha256.Size]byte }

// A login is a line of the file.
type login struct{ name, password string }

// First returns the first user in the file at path, for a program on the same host that has to log
// in.
func First(path string) (name, password string, err error) {
	logins, err := read(path)
	if err != nil {
		return "", "", err
	}
	return logins[0].name, logins[0].password, nil
}

// Load reads the file at path. The error says what is wrong with it; the usual cause is that users
// other than its owner may read it.
func Load(path string) (*File, error) {
	f := &File{path: path}
	return f, f.Reload()
}

// Reload reads the file again. After an error the old users stay.
func (f *File) Reload() error {
	logins, err := read(f.path)
	if err != nil {
		return err
	}
	users := make([]user, len(logins))
	for i, l := range logins {
		users[i] = user{sha256.Sum256([]byte(l.name)), sha256.Sum256([]byte(l.password))}
	}
	f.users.Store(&users)
	return nil
}

// Allows reports whether a line of the file has this name and password. The time it takes depends
// on neither.
func (f *File) Allows(name, password []byte) bool {
	n, p := sha256.Sum256(name), sha256.Sum256(password)
	found := 0
	for _, u := range *f.users.Load() {
		found |= subtle.ConstantTimeCompare(u.name[:], n[:]) & subtle.ConstantTimeCompare(u.password[:], p[:])
	}
	return found == 1
}

func read(path string) ([]login, error) {
	text, err := secretfile.Read(path, MaxFile)
	if err != nil {
		return nil, err
	}
	logins, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return logins, nil
}

// parse reads the lines. A password may contain a colon, a line may end in CR LF, and empty lines
// are ignored.
func parse(text []byte) ([]login, error) {
	var logins []login
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		name, password, ok := bytes.Cut(line, []byte(":"))
		switch {
		case len(line) == 0:
			continue
		case !ok:
			return nil, fmt.Errorf("line %d: user:password expected", number)
		case len(name) == 0 || len(name) > MaxUser:
			return nil, fmt.Errorf("line %d: a user name of %d bytes: 1 to %d allowed", number, len(name), MaxUser)
		case len(password) == 0 || len(password) > MaxPassword:
			return nil, fmt.Errorf("line %d: a password of %d bytes: 1 to %d allowed", number, len(password), MaxPassword)
		}
		logins = append(logins, login{string(name), string(password)})
	}
	if len(logins) == 0 {
		return nil, errors.New("no users: nobody could ask for ids")
	}
	return logins, nil
}
