package stores

import "github.com/katsubushi/katsubushi/v3/internal/endpoint"

// Where returns where sequences are recorded, as a command says it: a directory, or a URL without its
// password.
func (c Counters) Where() string {
	if _, rest, err := c.find(); err == nil && c.Files() {
		return counterDir(c, rest)
	}
	return endpoint.Safe(c.URL)
}
