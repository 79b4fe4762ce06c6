package endpoint

import (
	"cmp"
	"crypto/tls"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// CheckPassword adds it to problems if both a URL and a file have the password.
func CheckPassword(password, file string, problems *problem.List) {
	if password != "" && file != "" {
		problems.Add("PasswordFile", "there is a password in the URL too: one of the two is allowed")
	}
}

// Secret returns the password for a new connection: what the file has now, or else the URL.
func Secret(password, file string) (string, error) {
	if file == "" {
		return password, nil
	}
	return secretfile.Password(file)
}

// Secret returns the password for a new connection.
func (t Target) Secret() (string, error) { return Secret(t.Password, t.PasswordFile) }

// Encryption returns the settings of a new connection; nil = it is not encrypted. It reads the files.
func (t Target) Encryption() (*tls.Config, error) {
	if !t.TLS {
		return nil, nil
	}
	return t.Files.Config()
}

// ReadSecrets reads the files as every connection will, and returns what is wrong with them, as an error of
// package problem. fields are those that name the files CA, Cert and Key, if the URL does not.
func (t Target) ReadSecrets(fields map[string]string) error {
	var problems problem.List
	if _, err := t.Secret(); err != nil {
		problems.Add("PasswordFile", "%w", err)
	}
	wrong := func(file string, err error) { problems.Add(cmp.Or(fields[file], "URL"), "%w", err) }
	if !t.TLS {
		return problems.Err()
	}
	if _, err := Roots(t.Files.CA); err != nil {
		wrong("CA", err)
	}
	if t.Files.Cert != "" && t.Files.Key != "" {
		_, err := t.Files.Certificate()
		for _, p := range problem.Of(err) {
			wrong(p.Field, p.Err)
		}
	}
	return problems.Err()
}
