package front

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// TestValidate: the field that is to blame, and the words.
func TestValidate(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		what   string
		change func(*Config)
		want   string
	}{
		{"nothing", func(*Config) {}, ""},
		{"the largest", func(c *Config) {
			c.IdleTimeout, c.DrainTimeout, c.Loops, c.MaxConnections = year, time.Hour, 1024, 1<<30
			c.MaxBufferMemory, c.Port, c.RedisPort, c.UDPPort, c.SockMode = maxBufferMemory, 65535, 65535, 65535, 0o777
		}, ""},
		{"the smallest", func(c *Config) { c.MaxConnections, c.MaxBufferMemory = 1, MinBufferMemory }, ""},
		{"too large", func(c *Config) {
			c.IdleTimeout, c.DrainTimeout, c.Loops, c.MaxConnections = year+1, time.Hour+1, 1025, 1<<30+1
			c.MaxBufferMemory, c.Port, c.RedisPort, c.UDPPort, c.SockMode = maxBufferMemory+1, 65536, 65536, 65536, 0o1000
		}, "IdleTimeout DrainTimeout UDPPort Loops MaxConnections MaxBufferMemory SockMode port redis-port"},
		{"too small", func(c *Config) {
			c.IdleTimeout, c.DrainTimeout, c.Loops, c.MaxConnections = -1, -1, 0, 0
			c.MaxBufferMemory, c.Port, c.RedisPort, c.UDPPort = MinBufferMemory-1, -1, -1, -1
		}, "IdleTimeout DrainTimeout UDPPort Loops MaxConnections MaxBufferMemory port redis-port"},
		{"a limit of -1 bytes", func(c *Config) { c.MaxBufferMemory = -1 }, "MaxBufferMemory"},
		{"an address with a port", func(c *Config) { c.Bind = "h:1" }, "Bind"},
		{"an IPv6 address", func(c *Config) { c.Bind = "::1" }, ""},
		{"a long path", func(c *Config) { c.Sock = strings.Repeat("x", 200) }, "Sock"},
		{"an engine that is none", func(c *Config) { c.Engine = "steam" }, "Engine"},
		{"a certificate alone", func(c *Config) { c.TLSCert = "c" }, "TLSKey"},
		{"a key alone", func(c *Config) { c.TLSKey = "k" }, "TLSCert"},
		{"authorities alone", func(c *Config) { c.TLSClientCA = "a" }, "TLSClientCA"},
		{"all of TLS", func(c *Config) { c.TLSCert, c.TLSKey, c.TLSClientCA = "c", "k", "a" }, ""},
		{"users somewhere", func(c *Config) { c.Users = "somewhere" }, "Users"},
		{"users in counters", func(c *Config) { c.Users = "counters" }, ""},
		{"users twice", func(c *Config) { c.Users, c.AuthFile = "counters", "f" }, "Users"},
		{"UDP", func(c *Config) { c.UDPPort = 7 }, ""},
		{"UDP round a file", func(c *Config) { c.UDPPort, c.AuthFile = 7, "f" }, "UDPPort (not together with -auth-file)"},
		{"UDP round users", func(c *Config) { c.UDPPort, c.Users = 7, "counters" },
			"UDPPort (not together with -auth-store)"},
		{"UDP round TLS", func(c *Config) { c.UDPPort, c.TLSCert, c.TLSKey = 7, "c", "k" },
			"UDPPort (not together with -tls-cert)"},
		{"UDP beside a socket", func(c *Config) { c.UDPPort, c.Sock = 7, "/s" }, "UDPPort (not together with -sock)"},
	} {
		config := testConfig()
		c.change(&config)
		var got []string
		for _, p := range problem.Of(config.Validate()) {
			field := p.Field
			if _, why, ok := strings.Cut(p.Error(), "not together with "); ok && field == "UDPPort" {
				field += fmt.Sprintf(" (not together with %s)", why)
			}
			got = append(got, field)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestLimitsAreNamed in the words of those who set them.
func TestLimitsAreNamed(t *testing.T) {
	c := testConfig()
	c.MaxBufferMemory, c.IdleTimeout, c.SockMode, c.Loops = 1, -time.Second, 0o4755, 1025
	want := `IdleTimeout: -1s: 0s to 8760h0m0s allowed
Loops: 1025: 1 to 1024 allowed
MaxBufferMemory: 1 bytes: 4 MiB to 1024 GiB allowed, or 0 for no limit
SockMode: 04755: 0 to 0777 allowed`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestSecretsAreReadOnce: they may be pipes. What could not be read is read again.
func TestSecretsAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	c := testConfig()
	c.TLSCert, c.TLSKey, c.AuthFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "auth")
	read := func(want string) {
		t.Helper()
		var got []string
		for _, p := range problem.Of(c.ReadSecrets()) {
			got = append(got, p.Field)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("ReadSecrets blames %q, want %q", got, want)
		}
	}
	if err := c.Validate(); err != nil {
		t.Errorf("files that are not there: %v", err)
	}
	read("TLSCert TLSKey AuthFile")
	if err := os.WriteFile(c.AuthFile, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read("TLSCert TLSKey")
	os.Remove(c.AuthFile)
	read("TLSCert TLSKey")
}
