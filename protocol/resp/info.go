package resp

import (
	"path"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// sections are the parts of INFO. Clients and monitors read the fields that have Redis's names; the
// last section has all statistics of the Handler.
var sections = []struct {
	name   string
	fields []field
}{
	{"Server", []field{{name: "redis_version", is: redisVersion}, {name: "redis_mode", stat: "redis_mode"},
		{name: "katsubushi_version", stat: "version"},
		{name: "arch_bits", is: "64"}, {name: "process_id", stat: "pid"}, {name: "uptime_in_seconds", stat: "uptime"}}},
	{"Clients", []field{{name: "connected_clients", stat: "curr_connections"},
		{name: "maxclients", stat: "max_connections"}}},
	{"Persistence", []field{{name: "loading", stat: "ready", not: true}}},
	{"Stats", []field{{name: "total_connections_received", stat: "total_connections"},
		{name: "total_net_input_bytes", stat: "bytes_read"},
		{name: "total_net_output_bytes", stat: "bytes_written"}, {name: "rejected_connections", stat: "rejected_connections"},
		{name: "keyspace_hits", stat: "get_hits"}, {name: "keyspace_misses", stat: "get_misses"}}},
	{"Replication", []field{{name: "role", is: "master"}, {name: "connected_slaves", is: "0"}}},
	{"Cluster", []field{{name: "cluster_enabled", stat: "cluster_enabled"}}},
	{"Keyspace", nil},
	{"Katsubushi", nil},
}

// A field is a line of INFO: a constant, one of the Handler's statistics, or what clusterMode says.
type field struct {
	name, is string
	stat     string // empty = it is a constant
	not      bool   // 1 becomes 0, and everything else 1
}

// info answers INFO. It allocates, because statistics do.
func (s *Session) info(t *turn, a arguments) {
	all := a.n == 0
	wanted := make([]bool, len(sections))
	for a.n > 0 {
		section := strings.ToLower(string(a.next()))
		all = all || section == "all" || section == "default" || section == "everything"
		for i := range sections {
			wanted[i] = wanted[i] || strings.ToLower(sections[i].name) == section
		}
	}
	names, values := statistics(s.config.Handler)
	values["redis_mode"], values["cluster_enabled"], _ = s.clusterMode()
	var b strings.Builder
	for i, section := range sections {
		if !all && !wanted[i] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + section.name + "\r\n")
		for _, f := range section.fields {
			if line := f.line(values); line != "" {
				b.WriteString(line + "\r\n")
			}
		}
		if section.name == "Katsubushi" {
			for _, name := range names {
				b.WriteString(name + ":" + values[name] + "\r\n")
			}
		}
	}
	s.verbatim(t, b.String())
}

// line returns name:value, or nothing if there is no such statistic.
func (f *field) line(values map[string]string) string {
	value := f.is
	if f.stat != "" {
		var ok bool
		if value, ok = values[f.stat]; !ok {
			return ""
		}
	}
	if f.not {
		value = map[bool]string{true: "0", false: "1"}[value == "1"]
	}
	return f.name + ":" + value
}

// statistics returns the Handler's general statistics, and their names in order.
func statistics(h protocol.Handler) (names []string, values map[string]string) {
	values = make(map[string]string)
	h.Stats(nil, func(name, value string) {
		name = string(visible.AppendLine(nil, name, protocol.MaxKey))
		value = string(visible.AppendLine(nil, value, 2048))
		names, values[name] = append(names, name), value
	})
	return names, values
}

const clusterEnabled = "cluster-enabled"

// settings are what CONFIG GET knows: what clients and redis-benchmark ask for.
var settings = [...]struct{ name, value string }{
	{"appendonly", "no"},
	{clusterEnabled, ""}, // see clusterMode
	{"databases", "1"},
	{"maxmemory", "0"},
	{"maxmemory-policy", "noeviction"},
	{"notify-keyspace-events", ""},
	{"proto-max-bulk-len", "1048576"},
	{"save", ""},
	{"slave-read-only", "yes"},
	{"replica-read-only", "yes"},
	{"timeout", "0"},
}

// configGet answers CONFIG GET: the settings whose names match one of the patterns. A name that is
// asked for as such comes back as it was asked for.
func (s *Session) configGet(t *turn, a arguments) {
	var wanted [len(settings)]string // as what; empty = not
	n := 0
	for a.n > 0 {
		asked := string(a.next())
		pattern := strings.ToLower(asked)
		for i := range settings {
			if ok, _ := path.Match(pattern, settings[i].name); ok && wanted[i] == "" {
				n++
				if wanted[i] = settings[i].name; wanted[i] == pattern {
					wanted[i] = asked
				}
			}
		}
	}
	s.pairs(t, n)
	for i, name := range wanted {
		if name == "" {
			continue
		}
		value := settings[i].value
		if settings[i].name == clusterEnabled {
			_, _, value = s.clusterMode()
		}
		t.text(name)
		t.text(value)
	}
}
