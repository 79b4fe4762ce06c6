package users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Store is a place where users are kept. Any goroutine may call its methods. Errors never contain a
// secret.
type Store interface {
	// Changes returns all users, unless nothing has changed since: then now equals since, and the list is
	// nil. since is what an earlier call returned, or empty. An error that is ErrUnavailable goes away
	// by itself; other errors last until an operator corrects what is stored. After an error the users that
	// were read before hold.
	Changes(ctx context.Context, since string) (now string, list []User, err error)
	// Update changes one user. change gets the user as it is, or nil, and returns the user as it shall be,
	// or nil to remove it. It may be called several times. Its error is returned, and nothing is changed.
	Update(ctx context.Context, name string, change func(old *User) (*User, error)) error
}

// ErrUnavailable is the error of a Store that cannot be reached at the moment.
var ErrUnavailable = errors.New("the users cannot be read at the moment")

// A MissingError is the error for a user that does not exist.
type MissingError string

func (e MissingError) Error() string { return fmt.Sprintf("there is no user %q", string(e)) }

// An ExistsError is the error for a user that exists already.
type ExistsError string

func (e ExistsError) Error() string { return fmt.Sprintf("there is a user %q already", string(e)) }

// A Shown is a user without the secret, as operators see it.
type Shown struct {
	Name   string `json:"name"`
	Login  string `json:"login"` // see User.Kind
	Rights string `json:"rights"`
}

// Show returns what operators see of a user.
func Show(u User) Shown { return Shown{u.Name, u.Kind(), u.Rights.String()} }

// List returns all users by name. One with several plain passwords is there once.
func List(ctx context.Context, s Store) ([]Shown, error) {
	_, all, err := s.Changes(ctx, "")
	list := make([]Shown, len(all))
	for i, u := range all {
		list[i] = Show(u)
	}
	slices.SortStableFunc(list, func(a, b Shown) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(list), err
}

// Add adds a user, or returns an ExistsError.
func Add(ctx context.Context, s Store, u User) error {
	return s.Update(ctx, u.Name, func(old *User) (*User, error) {
		if old != nil {
			return nil, ExistsError(u.Name)
		}
		return &u, nil
	})
}

// A LastAdminError is the error for a change after which no user would have the right admin on every key:
// nobody could change users over the admin port any more. Nothing was changed.
type LastAdminError struct{ Name, Force string }

func (e LastAdminError) Error() string {
	return fmt.Sprintf("user %q is the last one with the right admin on *: without one nobody can change users over "+
		"the admin port. "+
		"Grant another user *=admin first; %s does it all the same", e.Name, e.Force)
}

// KeepAdmin returns s with an Update that leaves a user who has the right admin on every key: it returns a
// LastAdminError instead, which names force as what s itself is for. Of two changes at the same moment
// neither sees the other.
func KeepAdmin(s Store, force string) Store { return keepsAdmin{s, force} }

type keepsAdmin struct {
	Store
	force string
}

func (k keepsAdmin) Update(ctx context.Context, name string, change func(old *User) (*User, error)) error {
	_, all, unread := k.Changes(ctx, "")
	others := slices.ContainsFunc(all, func(u User) bool { return u.Name != name && u.administers() })
	return k.Store.Update(ctx, name, func(old *User) (*User, error) {
		was := old != nil && old.administers()
		u, err := change(old)
		switch {
		case err != nil || !was || others || u != nil && u.administers():
			return u, err
		case unread != nil:
			return nil, unread
		}
		return nil, LastAdminError{name, k.force}
	})
}

func (u *User) administers() bool { return u.Rights.All()&Admin != 0 }

// Remove removes a user, or returns a MissingError.
func Remove(ctx context.Context, s Store, name string) error {
	return s.Update(ctx, name, func(old *User) (*User, error) {
		if old == nil {
			return nil, MissingError(name)
		}
		return nil, nil
	})
}

// Change replaces the rights of a user, or returns a MissingError. A plain password is kept as a hash from
// then on, since a plain line has no room for rights.
func Change(ctx context.Context, s Store, name string, change func(Rights) (Rights, error)) error {
	return s.Update(ctx, name, func(old *User) (*User, error) {
		if old == nil {
			return nil, MissingError(name)
		}
		rights, err := change(old.Rights)
		if err != nil || rights.String() == old.Rights.String() {
			return old, err
		}
		u, err := old.hashed()
		u.Rights = rights
		return &u, err
	})
}
