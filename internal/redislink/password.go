package redislink

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// LogIn takes the password of the data servers from a file, for each connection again, so that a new
// password needs no restart. The user's name stays that of the URL. With "" it does nothing.
func (t *Target) LogIn(file string) error {
	if file == "" {
		return nil
	}
	if t.Options.Password != "" {
		return errors.New("redis: there is a password in the URL and in a file")
	}
	user := t.Options.Username
	t.Options.CredentialsProviderContext = func(context.Context) (string, string, error) {
		password, err := secretfile.Password(file)
		return user, password, err
	}
	return nil
}

// ErrEvicts is returned for a server that may evict keys when it is short of memory. Retry;
// somebody must set maxmemory-policy to noeviction.
var ErrEvicts = errors.New("redis: maxmemory-policy is not noeviction, so that keys could be evicted")
