package etcd

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// Config is what a Store is made of. Only URL is required.
type Config struct {
	// URL says where etcd is and which keys are used:
	//
	//	etcd://user:password@host:2379,host2:2379/prefix?ns=NAME
	//	etcds://host:2379?ns=NAME&ca=FILE&cert=FILE&key=FILE      with TLS
	//
	// The user, the password, the ports, the prefix (katsubushi), ns (default) and the files may be left out. ca is
	// the authority of etcd's certificates, by default the system's; cert and key are this client's,
	// and read again for each connection.
	URL string
	// PasswordFile has the user's password; package secretfile says which permissions the file needs.
	// It is read at the start, and again after etcd has refused the password.
	PasswordFile string
	Timeout      time.Duration // after which etcd is given up for one attempt; default 2 s
	Log          *slog.Logger  // default none
}

// DefaultNamespace is the namespace of a URL that names none.
const DefaultNamespace = "default"

const defaultTimeout = 2 * time.Second

var protocol = endpoint.Protocol{
	Scheme: "etcd", Port: 2379, Path: "katsubushi", Namespace: DefaultNamespace, Plain: true,
}

// link returns how to connect.
func (c Config) link(t endpoint.Target) etcdlink.Target {
	before := "http://"
	if t.TLS {
		before = "https://"
	}
	l := etcdlink.Target{User: t.User, Root: t.Key() + "/"}
	for _, host := range t.Hosts {
		l.Endpoints = append(l.Endpoints, before+host)
	}
	l.Password = func() (string, error) {
		if c.PasswordFile == "" {
			return t.Password, nil
		}
		return secretfile.Password(c.PasswordFile)
	}
	l.TLS = func() (*tls.Config, error) {
		if !t.TLS {
			return nil, nil
		}
		return t.Files.Config()
	}
	return l
}

// Validate returns everything that is wrong with the settings, as an error of package problem. It
// reads no file.
func (c Config) Validate() error {
	t, problems := protocol.Target(c.URL)
	protocol.CheckPassword(t, c.PasswordFile, &problems)
	return problems.Err()
}

// ReadSecrets reads the files that the settings name, and returns what is wrong with them, in the same
// form as Validate.
func (c Config) ReadSecrets() error {
	var problems problem.List
	t, wrong := protocol.Target(c.URL)
	if wrong != nil {
		return nil // Validate says so
	}
	l := c.link(t)
	if _, err := l.Password(); err != nil {
		problems.Add("PasswordFile", "%w", err)
	}
	if _, err := l.TLS(); err != nil {
		problems.Add("URL", "%w", err)
	}
	return problems.Err()
}
