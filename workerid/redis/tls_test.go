package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots, err := selfsigned.Write(cert, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	port := redistest.FreePort(t)
	s := redistest.Start(t, "--port", "0", "--tls-port", fmt.Sprint(port), "--tls-auth-clients", "no", "--requirepass",
		"secret",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	w := worldOf(t, s)
	w.config.URL = fmt.Sprintf("rediss://:secret@127.0.0.1:%d/0?ns=x", port)
	var unknown x509.UnknownAuthorityError
	redistest.Until(t, "the server answers", func() bool {
		err := w.daemon().tryAcquire(redislink.Patience)
		return errors.As(err, &unknown)
	})
	w.config.TLS = &tls.Config{RootCAs: roots}
	w.keepTheirIDs(w.holders(2))
}
