package daemon

import (
	"net"
	"strings"
	"syscall"
)

// validatePorts refuses numbers that no port can have, and one number for two TCP ports that have an
// address in common. Of two, the one that is listed later is wrong.
func (c *Config) validatePorts(wrong func(field, format string, args ...any)) {
	var open []listener // on a port of their own
	for _, l := range listeners() {
		number := *l.Number(&c.Ports)
		if number < 0 || number > 65535 {
			wrong(l.Flag, "%d: 0 to 65535 allowed", number)
		}
		if number == 0 || !l.listens(c) || !l.onTCP(c) {
			continue
		}
		for _, other := range open {
			if number == *other.Number(&c.Ports) && overlap(l.address(c), other.address(c)) {
				wrong(l.Flag, "%d is the %s port too", number, other.name)
			}
		}
		open = append(open, l)
	}
}

// overlap reports whether two listening addresses have an address in common, as far as that can be
// known without asking for names.
func overlap(a, b string) bool {
	all := func(s string) bool {
		ip := net.ParseIP(s)
		return s == "" || ip != nil && ip.IsUnspecified()
	}
	local := func(s string) string {
		if strings.EqualFold(s, "localhost") {
			return loopback
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
