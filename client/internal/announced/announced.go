// Package announced turns what daemons announce into servers of a client.
package announced

import (
	"maps"
	"slices"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/client"
)

// Servers are the daemons that are ready and have an address, in the order of their names. Entries that
// are not valid are skipped.
func Servers(entries map[string]string) (list []client.Server) {
	latest := announcement.Latest(entries)
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		if a := latest[name]; a.Ready && a.Addr != "" {
			s := client.Server{Addr: a.Addr, TLS: client.SpeaksPlain}
			if a.TLS {
				s.TLS = client.SpeaksTLS
			}
			list = append(list, s)
		}
	}
	return list
}
