package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// A shownUser is what PUT answers. The token is answered to whoever had it made, and never again.
type shownUser struct {
	users.Shown
	Token string `json:"token,omitempty"`
}

func (a api) routeUsers(mux *http.ServeMux) {
	route := func(pattern string, do operation) {
		a.route(mux, pattern, func(r request) (any, int, error) {
			v, status, err := do(r)
			return v, status, ofUsers(err)
		})
	}
	route("GET /users", func(r request) (any, int, error) {
		list, err := users.List(r.Context(), a.Users())
		return struct {
			Users []users.Shown `json:"users"`
		}{list}, http.StatusOK, err
	})
	route("GET /users/{user}", func(r request) (any, int, error) { return a.user(r.Context(), r.PathValue("user")) })
	route("PUT /users/{user}", a.putUser)
	route("DELETE /users/{user}", func(r request) (any, int, error) {
		var removed users.Shown
		err := a.usersOf(r).Update(r.Context(), r.PathValue("user"), func(old *users.User) (*users.User, error) {
			if old == nil {
				return nil, users.MissingError(r.PathValue("user"))
			}
			removed = users.Show(*old)
			return nil, nil
		})
		return removed, http.StatusOK, err
	})
}

// usersOf returns the store of users for a request that changes one.
func (a api) usersOf(r request) users.Store {
	if r.URL.Query().Get("force") == "true" {
		return a.Users()
	}
	return users.KeepAdmin(a.Users(), "?force=true")
}

// ofUsers returns an error of a store of users such that statusOf knows it: all that does not go away by
// itself, such as the removal of the last user of a file, is a Conflict.
func ofUsers(err error) error {
	for _, known := range []error{nil, users.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, known) {
			return err
		}
	}
	if statusOf(err) == http.StatusServiceUnavailable {
		return stores.Conflict{Err: err}
	}
	return err
}

func (a api) user(ctx context.Context, name string) (any, int, error) {
	list, err := users.List(ctx, a.Users())
	if i := slices.IndexFunc(list, func(u users.Shown) bool { return u.Name == name }); i >= 0 {
		return list[i], http.StatusOK, nil
	}
	if err == nil {
		err = users.MissingError(name)
	}
	return nil, 0, err
}

// A userBody is what PUT says of a user.
type userBody struct {
	Password string  // a new one, or empty
	Token    bool    // a new one instead
	Rights   *string // nil = those that the user has
}

// putUser makes a user, or changes what the body says of one. A token is made here, and answered this
// once.
func (a api) putUser(r request) (any, int, error) {
	var body userBody
	if err := r.read(&body, nil); err != nil {
		return nil, 0, err
	}
	var rights users.Rights
	var err error
	if body.Rights != nil {
		rights, err = users.ParseRights(*body.Rights)
	}
	next, token, status := users.User{Name: r.PathValue("user")}, "", 0
	switch {
	case err != nil:
	case body.Password != "" && body.Token:
		err = errors.New("password and token: one of the two is allowed")
	case body.Password != "":
		next, err = next.WithPassword([]byte(body.Password))
	case body.Token:
		next, token, err = next.WithToken()
	case body.Rights == nil:
		err = errNothing
	default: // the secret stays
		return a.changeRights(r, next.Name, rights)
	}
	if err != nil {
		return nil, 0, wrong{err}
	}
	err = a.usersOf(r).Update(r.Context(), next.Name, func(old *users.User) (*users.User, error) {
		next.Rights, status = rights, http.StatusOK
		switch {
		case old == nil && body.Rights == nil:
			return nil, wrong{errNothing}
		case old == nil:
			status = http.StatusCreated
		case body.Rights == nil:
			next.Rights = old.Rights
		}
		return &next, nil
	})
	if err != nil {
		return nil, 0, err
	}
	return shownUser{users.Show(next), token}, status, nil
}

var errNothing = errors.New("a user needs rights, such as orders*=get,incr;*=get, and a password or a token")

func (a api) changeRights(r request, name string, rights users.Rights) (any, int, error) {
	err := users.Change(r.Context(), a.usersOf(r), name, func(users.Rights) (users.Rights, error) { return rights, nil })
	if err != nil {
		return nil, 0, err
	}
	return a.user(r.Context(), name)
}
