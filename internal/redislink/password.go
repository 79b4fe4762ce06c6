package redislink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

const maxPassword = 4096 // bytes

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
		password, err := ReadPassword(file)
		return user, password, err
	}
	return nil
}

// ReadPassword reads a file whose content is a password, but for a newline at its end. Package
// secretfile says which permissions it needs.
func ReadPassword(path string) (string, error) {
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: no regular file, and it is read for every connection", path)
	}
	text, err := secretfile.Read(path, maxPassword+len("\r\n"))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s: no password is in it", path)
	case len(text) > maxPassword:
		return "", fmt.Errorf("%s: larger than %d bytes", path, maxPassword)
	}
	return string(text), nil
}

// ErrEvicts is returned for a server that may evict keys when it is short of memory. Retry;
// somebody must set maxmemory-policy to noeviction.
var ErrEvicts = errors.New("redis: maxmemory-policy is not noeviction, so that keys could be evicted")
