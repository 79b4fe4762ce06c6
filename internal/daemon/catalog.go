package daemon

import "github.com/katsubushi/katsubushi/v3/internal/issuer"

// kinds is the table of what ids there are, by the keys that ask for them; "" is any other key.
func (d *Daemon) kinds() map[string]issuer.Kind {
	return map[string]issuer.Kind{
		"": d.issuer,
	}
}
