package users

import (
	"context"
	"errors"
	"fmt"
)

// Keys is a store of small texts by name, which several daemons share. counter/etcd implements it.
type Keys interface {
	// Texts returns all texts of a folder, unless nothing has changed since: then now equals since, and
	// the map is nil.
	Texts(ctx context.Context, folder, since string) (now string, texts map[string]string, err error)
	// Edit changes one text, whatever others write meanwhile. change gets the text as it is, empty if there
	// is none, and returns the text as it shall be, empty to remove it. It may be called several times.
	Edit(ctx context.Context, folder, name string, change func(old string) (string, error)) error
	// Unavailable reports whether an error of the two goes away by itself.
	Unavailable(err error) bool
}

// folder is where Shared keeps users.
const folder = "user"

// Shared is a Store in keys that several daemons share. A text is a line of a File; plain passwords are
// refused there.
type Shared struct{ keys Keys }

var _ Store = Shared{}

// NewShared makes a Store in keys.
func NewShared(keys Keys) Shared { return Shared{keys} }

// Changes implements Store. One text that cannot be read makes all of them an error.
func (s Shared) Changes(ctx context.Context, since string) (now string, list []User, err error) {
	now, texts, err := s.keys.Texts(ctx, folder, since)
	if err != nil {
		return since, nil, s.explain(err)
	}
	if now == since {
		return since, nil, nil
	}
	var errs []error
	list = []User{} // not nil: it has changed
	for name, text := range texts {
		u, err := shared(name, text)
		list, errs = append(list, u), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return since, nil, err
	}
	return now, list, nil
}

// shared parses the text of a user.
func shared(name, text string) (User, error) {
	u, err := parseLine(text)
	if _, isPlain := u.secret.(plain); err == nil && isPlain {
		err = errors.New("a plain password")
	} else if err == nil && u.Name != name {
		err = errors.New("the line is another user's")
	}
	if err != nil {
		return User{}, fmt.Errorf("%s/%.80q: %w", folder, name, err)
	}
	return u, nil
}

func (s Shared) explain(err error) error {
	if s.keys.Unavailable(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Update implements Store.
func (s Shared) Update(ctx context.Context, name string, change func(old *User) (*User, error)) error {
	if err := CheckName(name); err != nil {
		return err
	}
	var refused error
	err := s.keys.Edit(ctx, folder, name, func(text string) (string, error) {
		var old *User
		if text != "" {
			u, err := shared(name, text)
			if err != nil {
				return "", err
			}
			old = &u
		}
		var u *User
		if u, refused = change(old); refused != nil || u == nil {
			return "", refused
		}
		if _, isPlain := u.secret.(plain); isPlain {
			refused = errors.New("a plain password: it would be readable in etcd")
			return "", refused
		}
		return u.line(), nil
	})
	if err != nil && refused == nil {
		err = s.explain(err)
	}
	return err
}
