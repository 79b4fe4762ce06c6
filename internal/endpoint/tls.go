package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// Files are the PEM files of connections with TLS.
type Files struct {
	CA        string // the authorities of the server's certificate; empty = the system's
	Cert, Key string // this client's, both or none
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

const maxKey = 1 << 20 // bytes of a private key's file

// Certificate reads this client's certificate; none without files. Package secretfile says which
// permissions the key's file needs.
func (f Files) Certificate() (tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return tls.Certificate{}, nil
	}
	key, err := secretfile.Read(f.Key, maxKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := os.ReadFile(f.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	return pair, nil
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
		return &pair, err
	}
	_, err = f.Certificate()
	return c, err
}
