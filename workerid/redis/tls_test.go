package redis

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, "--tls-auth-clients", "no", "--requirepass", "secret")
	w := worldOf(t, s.Server)
	w.config.URL = "rediss://:secret@" + s.Addr + "/0?ns=x"
	w.config.TLS = &tls.Config{RootCAs: s.Roots}
	w.holder()
}

// A server that lets in nobody without a certificate: the URL names one, which is read again for each
// connection. raus' locks have a connection of their own.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t)
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	put := func(fromCert, fromKey string) {
		t.Helper()
		for from, to := range map[string]string{fromCert: cert, fromKey: key} {
			if text, err := os.ReadFile(from); err != nil || os.WriteFile(to, text, 0o600) != nil {
				t.Fatal(err)
			}
		}
	}
	put(s.Cert, s.Key)
	w := worldOf(t, s.Server)
	w.config.HoldRaus = "raus"
	w.config.URL = "rediss://" + s.Addr + "/0?ns=x&ca=" + s.Cert + "&cert=" + cert + "&key=" + key
	w.holder()

	other := t.TempDir()
	if _, err := selfsigned.Write(other+"/cert", other+"/key", 2); err != nil {
		t.Fatal(err)
	}
	put(other+"/cert", other+"/key")
	if _, err := w.pool().List(t.Context()); err == nil {
		t.Error("a certificate of another authority is enough")
	}
	put(s.Cert, s.Key)
	if _, err := w.pool().List(t.Context()); err != nil {
		t.Error(err)
	}
	if os.Remove(key); w.config.ReadSecrets() == nil {
		t.Error("the key is missing, and ReadSecrets says nothing")
	}
}
