package httpapi

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// A Login finds the user whom credentials belong to, for a client at an address. It returns nil if
// anything is wrong with them; it should take equally long whatever that is, and bound how often it is
// asked. An error means that nobody can know at the moment. It returns soon after ctx has ended.
type Login func(ctx context.Context, from netip.Addr, c users.Credentials) (*users.Account, error)

// Admit returns who sends a request, or answers it and returns nil. Wrong credentials, or none, cost the
// connection: only who has logged in may keep one.
func (l Login) Admit(w http.ResponseWriter, r *http.Request, n *Counters) *users.Account {
	if c, ok := users.ParseAuthorization(r.Header.Get("Authorization")); ok {
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
	}
	w.Header().Set("Connection", "close")
	w.Header().Add("WWW-Authenticate", `Basic realm="katsubushi", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="katsubushi"`)
	http.Error(w, "a user and a password, or a token, are needed", http.StatusUnauthorized)
	return nil
}
