package stores

import "github.com/katsubushi/katsubushi/v3/internal/endpoint"

// Where returns where sequences are recorded, as a command says it: a directory, or a URL without its
// password.
func (c Counters) Where() string {
	if c.Files() {
		return fileCounters{c}.directory()
	}
	return endpoint.Safe(c.URL)
}
