package daemon

import (
	"net"
	"strings"
	"syscall"
)

// validatePorts refuses one number for two TCP ports that have an address in common. Of two, the one
// that is listed later is wrong.
func (c *Config) validatePorts(wrong func(field, format string, args ...any)) {
	type port struct {
		field, name, host string
		number            int // 0 = off, or any free one
	}
	var ports []port
	if c.Sock == "" {
		ports = append(ports, port{"Port", "memcached", c.Bind, c.Port})
	}
	ports = append(ports, port{"HTTPPort", "HTTP", c.httpBind(), c.HTTPPort})
	if c.EnablePprof || c.EnableStats {
		ports = append(ports, port{"DebugPort", "debug", debugHost, c.DebugPort})
	}
	for i, p := range ports {
		for _, other := range ports[:i] {
			if p.number != 0 && p.number == other.number && overlap(p.host, other.host) {
				wrong(p.field, "%d is the %s port too", p.number, other.name)
			}
		}
	}
}

// overlap reports whether two listening addresses have an address in common, as far as that can be
// known without asking for names.
func overlap(a, b string) bool {
	all := func(s string) bool { ip := net.ParseIP(s); return s == "" || ip != nil && ip.IsUnspecified() }
	local := func(s string) string {
		if strings.EqualFold(s, "localhost") {
			return debugHost
		}
		return s
	}
	return local(a) == local(b) || all(a) || all(b)
}

// maxSock is the most bytes that the path of a unix socket may have. The kernel's field has room for
// a zero behind it: 108 bytes on Linux, 104 on the BSDs.
const maxSock = len(syscall.RawSockaddrUnix{}.Path) - 1

// validateSock refuses a path that the kernel would call an invalid argument.
func (c *Config) validateSock(wrong func(field, format string, args ...any)) {
	if n := len(c.Sock); n > maxSock {
		wrong("Sock", "a path of %d bytes: a unix socket's has at most %d", n, maxSock)
	}
}
