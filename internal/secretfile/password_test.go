package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	for content, want := range map[string]string{
		"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", " two words \n\n": " two words \n",
		"": "no password is in it", "\n": "no password is in it",
		strings.Repeat("x", maxPassword):          strings.Repeat("x", maxPassword),
		strings.Repeat("x", maxPassword) + "\r\n": strings.Repeat("x", maxPassword),
		strings.Repeat("x", maxPassword+1):        "larger than 4096 bytes",
	} {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Password(path)
		if err == nil && got != want || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.20q: %.20q, %v; want %.40q", content, got, err, want)
		}
	}
	if _, err := Password(os.DevNull); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a device: %v", err)
	}
}
