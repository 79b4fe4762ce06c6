package users

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// Credentials are what a request says of its user.
type Credentials struct {
	User, Password []byte
	Token          []byte // if it is not nil, there is nothing else
}

// ParseAuthorization reads the value of an Authorization header: Basic or Bearer. ok = false: it is
// neither, or malformed.
func ParseAuthorization(header string) (c Credentials, ok bool) {
	scheme, rest, ok := strings.Cut(header, " ")
	switch {
	case ok && strings.EqualFold(scheme, "Bearer"):
		return Credentials{Token: []byte(strings.TrimSpace(rest))}, true
	case ok && strings.EqualFold(scheme, "Basic"):
		text, err := base64.StdEncoding.DecodeString(rest)
		c.User, c.Password, ok = bytes.Cut(text, []byte(":"))
		return c, ok && err == nil
	}
	return c, false
}
