package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/internal/redistest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	roots := certificates(t, dir)
	port := redistest.FreePort(t)
	s := redistest.Start(t, "--port", "0", "--tls-port", fmt.Sprint(port), "--tls-auth-clients", "no", "--requirepass", "secret",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"))
	w := worldOf(t, s)
	w.config.URL = fmt.Sprintf("rediss://:secret@127.0.0.1:%d/0?ns=x", port)
	var unknown x509.UnknownAuthorityError
	redistest.Until(t, "the server answers", func() bool {
		err := w.daemon().tryAcquire(patience)
		return errors.As(err, &unknown)
	})
	w.config.TLS = &tls.Config{RootCAs: roots}
	w.keepTheirIDs(w.holders(2))
}

// certificates writes a certificate for 127.0.0.1 and its key.
func certificates(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return roots
}
