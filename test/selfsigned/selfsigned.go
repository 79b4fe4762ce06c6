// Package selfsigned makes certificates for tests.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Write makes a certificate for localhost and 127.0.0.1, of servers and of clients, that is its own
// authority and good for a day. It writes the certificate and its key to PEM files, and returns
// what whoever trusts it needs.
func Write(certFile, keyFile string, serial int64) (*x509.CertPool, error) {
	return WriteFrom(certFile, keyFile, serial, time.Now().Add(-time.Hour))
}

// WriteFrom is Write of a certificate that is good for 25 hours from then on.
func WriteFrom(certFile, keyFile string, serial int64, from time.Time) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "katsubushi test"},
		NotBefore: from, NotAfter: from.Add(25 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(certFile, cert, 0o644); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// Files is Write into a directory of the test's own.
func Files(t testing.TB) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	certFile = filepath.Join(t.TempDir(), "cert.pem")
	keyFile = certFile + ".key"
	roots, err := Write(certFile, keyFile, 1)
	if err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, roots
}
