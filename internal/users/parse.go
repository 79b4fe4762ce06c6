package users

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The lines of a file of users:
//
//	ann:secret                                        a plain password: may get and incr everything
//	bob:$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH:orders*=get,incr;*=get
//	eve:$token-sha256$HEX:*=get
//
// A plain password may contain colons, and a user may have several plain lines, as one who changes it
// needs. A line may end in CR LF; empty lines are ignored. There are no comments: # may begin a name.

// Limits, in bytes.
const (
	maxFile     = 1 << 20
	maxUser     = 256
	MaxPassword = 256

	maxUsers    = 1 << 14
	maxProblems = 100 // that are told at once
)

// parse reads the lines of a file, or returns everything that is wrong with them, each with the number of
// its line. No error quotes a secret.
func parse(text []byte) ([]User, error) {
	var users []User
	var errs []error
	type found struct {
		line  int
		plain bool
	}
	names := map[string]found{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			continue
		}
		u, err := parseLine(string(line))
		if err == nil {
			_, isPlain := u.secret.(plain)
			first, again := names[u.Name]
			if !again {
				names[u.Name] = found{number, isPlain}
			} else if !isPlain || !first.plain {
				err = fmt.Errorf("user %.80q is in line %d already", u.Name, first.line)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		users = append(users, u)
	}
	switch {
	case len(errs) > maxProblems:
		errs = append(errs[:maxProblems:maxProblems], fmt.Errorf("and %d more lines", len(errs)-maxProblems))
	case len(errs) > 0:
	case len(users) > maxUsers:
		errs = append(errs, fmt.Errorf("%d users: %d allowed", len(users), maxUsers))
	case len(users) == 0:
		errs = append(errs, errors.New("no users: no client could ask for ids"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return users, nil
}

// parseLine parses one line.
func parseLine(line string) (User, error) {
	name, rest, ok := strings.Cut(line, ":")
	switch {
	case !ok:
		return User{}, errors.New("user:password expected")
	case len(name) == 0 || len(name) > maxUser:
		return User{}, fmt.Errorf("a user name of %d bytes: 1 to %d allowed", len(name), maxUser)
	case strings.HasPrefix(rest, hashMark) || strings.HasPrefix(rest, tokenMark):
		return parseSecret(name, rest)
	case foreignHash().MatchString(rest):
		return User{}, errors.New("a hash of another kind: argon2id allowed, which `katsubushi user add` makes")
	case len(rest) == 0 || len(rest) > MaxPassword:
		return User{}, fmt.Errorf("a password of %d bytes: 1 to %d allowed", len(rest), MaxPassword)
	}
	return User{Name: name, Rights: everything(Issue), secret: plain(rest)}, nil
}

// parseSecret parses a line with a hash or a token.
func parseSecret(name, rest string) (u User, err error) {
	text, rights, ok := strings.Cut(rest, ":")
	if err := CheckName(name); err != nil {
		return u, err
	}
	if !ok {
		return u, errors.New("no rights: after the hash comes :PATTERN=RIGHTS, such as :*=get,incr, or : alone " +
			"for none")
	}
	u.Name = name
	if strings.HasPrefix(text, tokenMark) {
		u.secret, err = parseToken(text)
	} else {
		u.secret, err = parseHash(text)
	}
	if err != nil {
		return User{}, err
	}
	if u.Rights, err = ParseRights(rights); err != nil {
		return User{}, err
	}
	return u, nil
}

// line returns what parseLine parses.
func (u User) line() string {
	text := u.Name + ":" + u.secret.text()
	if _, ok := u.secret.(plain); ok {
		return text
	}
	return text + ":" + u.Rights.String()
}
