package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// Files are the PEM files of connections with TLS.
type Files struct {
	CA        string // the authorities of the peer's certificate; empty = the system's
	Cert, Key string // one's own, both or none
}

// FileOptions are the names of the files in a query.
var FileOptions = []string{"ca", "cert", "key"}

// ReadFiles moves the files from a query to the target. scheme is that of URLs with TLS.
func (t *Target) ReadFiles(query url.Values, scheme string) error {
	fields := []*string{&t.Files.CA, &t.Files.Cert, &t.Files.Key}
	for i, name := range FileOptions {
		v, given := query[name]
		delete(query, name)
		switch {
		case !given:
		case len(v) > 1:
			return fmt.Errorf("?%s: allowed once", name)
		case v[0] == "":
			return fmt.Errorf("?%s= is empty", name)
		default:
			*fields[i] = v[0]
		}
	}
	switch {
	case !t.TLS && t.Files != Files{}:
		return fmt.Errorf("ca, cert and key belong to %s://", scheme)
	case (t.Files.Cert == "") != (t.Files.Key == ""):
		return errors.New("cert and key belong together")
	}
	return nil
}

// Roots reads the authorities in a PEM file; nil = the system's, for the path "".
func Roots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate is in it", path)
	}
	return roots, nil
}

// maxKey limits the size of a private key's file, in bytes: a key of 16,384 bits takes 13 KB.
const maxKey = 1 << 20

// Certificate reads a certificate chain and its key. Package secretfile says which permissions the key's
// file needs. The error is of package problem, with the fields Cert and Key.
func (f Files) Certificate() (pair tls.Certificate, err error) {
	var wrong problem.List
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		wrong.Add("Cert", "%w", err)
	}
	key, err := secretfile.Read(f.Key, maxKey)
	if err != nil {
		wrong.Add("Key", "%w", err)
	}
	if wrong == nil {
		if pair, err = tls.X509KeyPair(cert, key); err != nil {
			wrong.Add("Cert", "%s: with the key %s: %w", f.Cert, f.Key, err)
		}
	}
	return pair, wrong.Err()
}

// Config reads the files, and returns the settings of new connections. Each of these reads the client's
// certificate again.
func (f Files) Config() (*tls.Config, error) {
	roots, err := Roots(f.CA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if f.Cert == "" {
		return c, nil
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := f.Certificate()
		return &pair, problem.Plain(err)
	}
	_, err = f.Certificate()
	return c, problem.Plain(err)
}
