package cas

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

var keeper = Protocol{Scheme: "keeper", Port: 2181, Beside: "own"}

// set changes a setting. Files are those of a directory.
func set(t *testing.T, s *Settings, dir, name, value string) {
	files := map[string]*string{"password-file": &s.PasswordFile, "ca": &s.CAFile, "cert": &s.CertFile, "key": &s.KeyFile}
	numbers := map[string]*uint64{"min": &s.Min, "max": &s.Max}
	times := map[string]*time.Duration{"lease": &s.Lease, "heartbeat": &s.Heartbeat, "skew": &s.MaxSkew}
	var err error
	switch {
	case files[name] != nil:
		*files[name] = filepath.Join(dir, value)
	case numbers[name] != nil:
		*numbers[name], err = strconv.ParseUint(value, 10, 64)
	default:
		*times[name], err = time.ParseDuration(value)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSettings: everything that is wrong is reported at once, with its field, and no password is.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if _, err := selfsigned.Write(file("cert"), file("key"), 1); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"password": 0o600, "open": 0o644, "none": 0o600} {
		if err := os.WriteFile(file(name), []byte("hush\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	steps.Run(t, "testdata/settings.txt", func(t *testing.T) steps.Calls {
		settings := func(url string, words []string) Settings {
			s := Settings{URL: strings.ReplaceAll(url, "DIR", dir), Terms: workerid.Terms{Layout: "l", Min: 1, Max: 3}}
			for _, word := range words {
				name, value, _ := strings.Cut(word, "=")
				set(t, &s, dir, name, value)
			}
			return s
		}
		problems := func(err error) string {
			var lines []string
			for _, p := range problem.Of(err) {
				lines = append(lines, p.Error())
			}
			said := strings.ReplaceAll(strings.Join(lines, "\n"), dir, "DIR")
			if strings.Contains(said, "hu") {
				t.Errorf("the password is in %s", said)
			}
			return said
		}
		return steps.Calls{
			"target": func(url string, words ...string) string {
				u, wrong := settings(url, words).Target(keeper)
				if wrong.Err() != nil {
					return problems(wrong.Err())
				}
				return fmt.Sprintf("hosts %v, user %q, password %q, key %q, TLS %v", u.Where(), u.User, u.Password,
					u.Key("id", "0007"), u.TLS)
			},
			"check":   func(url string, words ...string) string { return problems(settings(url, words).Check(keeper)) },
			"secrets": func(url string, words ...string) string { return problems(settings(url, words).ReadSecrets()) },
			// connect says what a connection is made with
			"connect": func(url string, words ...string) (string, error) {
				u, _ := settings(url, words).Target(keeper)
				password, err := u.Secret()
				if err != nil {
					return "", err
				}
				c, err := u.Encryption()
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("password %q, authorities %v, certificate %v", password, c.RootCAs != nil,
					c.GetClientCertificate != nil), nil
			},
			"heartbeat": BestHeartbeat,
		}
	})
}
