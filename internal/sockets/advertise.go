package sockets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The address at which clients reach the daemon. ElastiCache clients ask for it (config get
// cluster) and connect to the answer, some to the name and some to the IP address. The address that
// the client has connected to would do as well, but with io_uring a connection has no descriptor to
// ask for it. So all clients get the same answer.

// lookupTimeout limits how long a start waits for the name in -advertise to be resolved.
const lookupTimeout = 2 * time.Second

// CheckAdvertised says what is wrong with a host:port to be advertised.
func CheckAdvertised(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '|'
	}) {
		return errors.New("host:port is allowed")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %s: 1 to 65535 allowed", port)
	}
	return nil
}

// An Advertised is where clients reach a daemon. The zero value: where it listens.
type Advertised struct {
	host, port string
	ip         netip.Addr // of host; invalid = unknown
}

// Advertise returns the host:port that CheckAdvertised found right, or an empty one. It finds the IP address of the
// name, if it can: clients may know a name that cannot be resolved here.
func Advertise(address string, log *slog.Logger) (a Advertised) {
	a.host, a.port, _ = net.SplitHostPort(address)
	if a.host == "" {
		return a
	}
	if ip, err := netip.ParseAddr(a.host); err == nil {
		a.ip = ip.Unmap()
		return a
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.host)
	if err != nil {
		log.Warn("the advertised name cannot be resolved: clients that want its IP address get none", "error", err)
		return a
	}
	a.ip = ips[0].Unmap()
	for _, ip := range ips { // ElastiCache clients may support only IPv4
		if ip = ip.Unmap(); ip.Is4() {
			a.ip = ip
			break
		}
	}
	return a
}

// Node returns the daemon as config get cluster lists it, host|ip|port; empty without a TCP port. listening
// is the address of a port of the engine. The advertised port is the memcached port's; any other port has the same
// host and its own number.
func (a Advertised) Node(listening net.Addr, memcached bool) string {
	tcp, ok := listening.(*net.TCPAddr)
	if a.host != "" && (memcached || ok) {
		ip, port := "", a.port
		if a.ip.IsValid() {
			ip = a.ip.String()
		}
		if !memcached {
			port = strconv.Itoa(tcp.Port)
		}
		return a.host + "|" + ip + "|" + port
	}
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.IsUnspecified() {
		ip = OwnAddress()
	}
	return fmt.Sprintf("%v|%v|%d", ip, ip, tcp.Port)
}

// OwnAddress returns the address from which this host reaches the rest of the world, or the
// loopback address. It sends nothing: connecting a UDP socket only looks up a route.
func OwnAddress() netip.Addr {
	for _, documentation := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		if c, err := net.Dial("udp", documentation); err == nil {
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// AddressTowards returns the address from which this host reaches one of several host:port. It is no loopback
// address if there is another one.
func AddressTowards(hosts []string) netip.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	for _, host := range hosts {
		c, err := new(net.Dialer).DialContext(ctx, "udp", host) // sends nothing
		if err != nil {
			continue
		}
		defer c.Close()
		if ip := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(); !ip.IsLoopback() {
			return ip
		}
	}
	return OwnAddress()
}
