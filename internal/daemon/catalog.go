package daemon

import "github.com/katsubushi/katsubushi/v3/internal/issuer"

// kinds returns the table of id kinds by the key that requests them; "" stands for any other key.
func (d *Daemon) kinds() map[string]issuer.Kind {
	return map[string]issuer.Kind{
		"": d.issuer,
	}
}
