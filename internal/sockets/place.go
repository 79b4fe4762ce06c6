// Package sockets says where the daemon listens: it opens sockets, waits for addresses that are still in use,
// and takes sockets that another process has opened.
package sockets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// Loopback is the address of places that others cannot reach; Listen takes ::1 where there is no IPv4.
const Loopback = "127.0.0.1"

// Unix is the name of the unix socket among passed sockets. A port's name is its flag.
const Unix = "sock"

// A Place is where one port listens: on a TCP or UDP port, or on a unix socket.
type Place struct {
	Flag  string // names the port among passed sockets, and as the field of a problem
	Title string // names it in problems
	Host  string // empty = all addresses
	Port  int    // 0 = any free one
	UDP   bool
	Local bool // Host is Loopback, of whichever family there is
	// Optional: nobody has asked for it, so the daemon does without if that is how it can start.
	Optional bool

	Path string // of a unix socket instead; empty = none
	Mode fs.FileMode
}

// An Address is where a port listens.
type Address struct {
	Title string // of its Place
	At    net.Addr
}

// Name returns the name that passed sockets for this place have.
func (p Place) Name() string {
	if p.Path != "" {
		return Unix
	}
	return p.Flag
}

// Listen opens up to n listeners.
func (p Place) Listen(n int) (lns []net.Listener, err error) {
	if p.Path != "" {
		return server.ListenUnix(p.Path, p.Mode, n)
	}
	err = p.onAddress(func(addr string) (err error) {
		lns, err = server.ListenTCP(addr, n)
		return err
	})
	return lns, err
}

// Probe returns the error that Listen would return.
func (p Place) Probe() error {
	if p.Path != "" {
		return server.ProbeUnix(p.Path)
	}
	return p.onAddress(server.ProbeTCP)
}

// Address returns the host and the port.
func (p Place) Address() string { return net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) }

// onAddress tries a thing with the address of the TCP port, and with that of the other family if it need not
// be this one.
func (p Place) onAddress(try func(addr string) error) error {
	err := try(p.Address())
	missing := errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
	if missing && p.Local {
		p.Host = "::1"
		return try(p.Address())
	}
	return err
}

// fits returns why a passed socket with this address is not for the place. lent = a supervisor's settings say at
// which host it listens.
func (p Place) fits(a net.Addr, lent bool) error {
	tcp, isTCP := a.(*net.TCPAddr)
	unix, isUnix := a.(*net.UnixAddr)
	udp, isUDP := a.(*net.UDPAddr)
	switch {
	case p.UDP && !isUDP:
		return fmt.Errorf("it is a socket of %s, not of UDP", a.Network())
	case p.UDP:
		return p.holds(udp.AddrPort(), lent)
	case isTCP && p.Path != "":
		return errors.New("it is a TCP socket, not a unix one")
	case isTCP:
		return p.holds(tcp.AddrPort(), lent)
	case isUnix && p.Path == "":
		return errors.New("it is a unix socket, not a TCP one")
	case isUnix && unix.Name != p.Path:
		return fmt.Errorf("its path is %s, that of these settings is %s", unix.Name, p.Path)
	case isUnix:
		return nil
	}
	return fmt.Errorf("it is a socket of %s", a.Network())
}

// holds returns why a socket at an address is not that of the place. Where a host's name leads, nobody knows, and a
// zone may be a name or a number.
func (p Place) holds(at netip.AddrPort, lent bool) error {
	is := at.Addr().Unmap().WithZone("")
	host, err := netip.ParseAddr(cmp.Or(p.Host, "::"))
	host = host.Unmap().WithZone("")
	switch {
	case p.Port != 0 && int(at.Port()) != p.Port:
		return fmt.Errorf("its port is %d, that of these settings is %d", at.Port(), p.Port)
	case lent, err != nil, p.Local && is.IsLoopback(), is == host, is.IsUnspecified() && host.IsUnspecified():
		return nil
	}
	return fmt.Errorf("its address is %s, that of these settings is %s", is, host)
}

// CheckHost refuses an address to listen on that is neither an address nor a name. The last label of a name is no
// number: what looks like 127.1 is a mistake in an address (RFC 3696, section 2).
func CheckHost(v string) error {
	_, err := netip.ParseAddr(v)
	last := v[strings.LastIndexByte(v, '.')+1:]
	number := last != "" && strings.Trim(last, "0123456789") == ""
	if err != nil && (number || strings.ContainsAny(v, ":/, ")) {
		return fmt.Errorf("%q: an address or a name without a port is allowed", v)
	}
	return nil
}

// CheckNumber refuses a number that no port can have.
func CheckNumber(n int) error {
	if n < 0 || n > 65535 {
		return fmt.Errorf("%d: 0 to 65535 allowed", n)
	}
	return nil
}

// Clashes tells of TCP ports with one number that have an address in common. Of two, the one that is listed
// later is wrong.
func Clashes(places []Place, wrong func(field, format string, args ...any)) {
	for i, p := range places {
		for _, other := range places[:i] {
			both := p.tcp() && other.tcp() && !p.Optional && !other.Optional
			if both && p.Port != 0 && p.Port == other.Port && overlap(p.Host, other.Host) {
				wrong(p.Flag, "%d is the %s port too", p.Port, other.Title)
			}
		}
	}
}

func (p Place) tcp() bool { return p.Path == "" && !p.UDP }

// overlap reports whether two listening addresses have an address in common, as far as that can be
// known without asking for names.
func overlap(a, b string) bool {
	all := func(s string) bool {
		ip := net.ParseIP(s)
		return s == "" || ip != nil && ip.IsUnspecified()
	}
	local := func(s string) string {
		if strings.EqualFold(s, "localhost") {
			return Loopback
		}
		return s
	}
	return local(a) == local(b) || all(a) || all(b)
}

// maxPath is the most bytes that the path of a unix socket may have. The kernel's field has room for
// a zero behind it: 108 bytes on Linux, 104 on the BSDs.
const maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckPath refuses a path of a unix socket that the kernel would call an invalid argument.
func CheckPath(path string) error {
	if n := len(path); n > maxPath {
		return fmt.Errorf("a path of %d bytes: a unix socket's has at most %d", n, maxPath)
	}
	return nil
}
