package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// A shownUser is a user without the secret.
type shownUser struct {
	Name   string `json:"name"`
	Login  string `json:"login"` // see users.User.Kind
	Rights string `json:"rights"`
	Token  string `json:"token,omitempty"` // in the answer to who had it made, and never again
}

func show(u users.User) shownUser {
	return shownUser{Name: u.Name, Login: u.Kind(), Rights: u.Rights.String()}
}

func (a api) routeUsers(mux *http.ServeMux) {
	a.route(mux, "GET /users", func(r request) (any, int, error) {
		list, err := a.users(r.Context())
		return struct {
			Users []shownUser `json:"users"`
		}{list}, http.StatusOK, err
	})
	a.route(mux, "GET /users/{user}", func(r request) (any, int, error) { return a.user(r.Context(), r.PathValue("user")) })
	a.route(mux, "PUT /users/{user}", a.putUser)
	a.route(mux, "DELETE /users/{user}", func(r request) (any, int, error) {
		var removed shownUser
		err := a.Users().Update(r.Context(), r.PathValue("user"), func(old *users.User) (*users.User, error) {
			if old == nil {
				return nil, users.MissingError(r.PathValue("user"))
			}
			removed = show(*old)
			return nil, nil
		})
		return removed, http.StatusOK, err
	})
}

func (a api) user(ctx context.Context, name string) (any, int, error) {
	list, err := a.users(ctx)
	if i := slices.IndexFunc(list, func(u shownUser) bool { return u.Name == name }); i >= 0 {
		return list[i], http.StatusOK, nil
	}
	if err == nil {
		err = users.MissingError(name)
	}
	return nil, 0, err
}

// users returns all users. One with several plain passwords is one of them.
func (a api) users(ctx context.Context) (list []shownUser, err error) {
	_, all, err := a.Users().Changes(ctx, "")
	seen := map[string]bool{}
	for _, u := range all {
		if !seen[u.Name] {
			list = append(list, show(u))
		}
		seen[u.Name] = true
	}
	return list, err
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
	next, token, status := users.User{Name: r.PathValue("user")}, "", http.StatusOK
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
	err = a.Users().Update(r.Context(), next.Name, func(old *users.User) (*users.User, error) {
		switch next.Rights = rights; {
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
	answer := show(next)
	answer.Token = token
	return answer, status, nil
}

var errNothing = errors.New("a user needs rights, such as orders*=get,incr;*=get, and a password or a token")

func (a api) changeRights(r request, name string, rights users.Rights) (any, int, error) {
	err := users.Change(r.Context(), a.Users(), name, func(users.Rights) (users.Rights, error) { return rights, nil })
	if err != nil {
		return nil, 0, err
	}
	return a.user(r.Context(), name)
}
