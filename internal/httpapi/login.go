package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// Credentials are what a request says of its user.
type Credentials struct {
	User, Password []byte
	Token          []byte // if it is not nil, there is nothing else
}

// A Login finds the user whom credentials belong to, for a client at an address. It returns nil if
// anything is wrong with them; it should take equally long whatever that is, and bound how often it is
// asked. An error means that nobody can know at the moment. It returns soon after ctx has ended.
type Login func(ctx context.Context, from netip.Addr, c Credentials) (*users.Account, error)

// Admit returns who sends a request, or answers it and returns nil. Wrong credentials cost the
// connection.
func (l Login) Admit(w http.ResponseWriter, r *http.Request, n *Counters) *users.Account {
	if c, ok := credentials(r); ok {
		from, _ := netip.ParseAddrPort(r.RemoteAddr)
		n.Logins.Add(1)
		who, err := l(r.Context(), from.Addr(), c)
		switch {
		case err != nil:
			unavailable(w, err)
			return nil
		case who != nil:
			return who
		}
		n.LoginErrors.Add(1)
		w.Header().Set("Connection", "close")
	}
	w.Header().Add("WWW-Authenticate", `Basic realm="katsubushi", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="katsubushi"`)
	http.Error(w, "a user and a password, or a token, are needed", http.StatusUnauthorized)
	return nil
}

func credentials(r *http.Request) (c Credentials, ok bool) {
	if user, password, ok := r.BasicAuth(); ok {
		return Credentials{User: []byte(user), Password: []byte(password)}, true
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return Credentials{Token: []byte(strings.TrimSpace(token))}, ok && strings.EqualFold(scheme, "Bearer")
}
