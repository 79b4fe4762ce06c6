package etcd

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
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
}

// DefaultNamespace is the namespace of a URL that names none.
const DefaultNamespace = "default"

const defaultTimeout = 2 * time.Second

var protocol = endpoint.Protocol{
	Scheme: "etcd", Port: endpoint.EtcdPort, Path: "katsubushi", Namespace: DefaultNamespace, Plain: true,
}

// target returns what the URL and the file of the password say.
func (c Config) target() (endpoint.Target, error) {
	t, problems := protocol.Target(c.URL)
	t.PasswordFile = c.PasswordFile
	protocol.CheckPassword(t, &problems)
	return t, problems.Err()
}

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors. It
// reads no file.
func (c Config) Validate() error {
	_, err := c.target()
	return err
}

// ReadSecrets reads the files that the settings name, and returns what is wrong with them, in the same
// form as Validate.
func (c Config) ReadSecrets() error {
	t, _ := c.target()
	return t.ReadSecrets(nil)
}
