package daemon

import (
	"context"
	"errors"
	"fmt"
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

// lookupTimeout limits how long a start waits for the name in Config.Advertise to be resolved.
const lookupTimeout = 2 * time.Second

// checkAdvertise says what is wrong with a host:port to be advertised.
func checkAdvertise(address string) error {
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

// resolveAdvertised finds the IP address of the advertised name. Clients may know a name that
// cannot be resolved here.
func (d *Daemon) resolveAdvertised() error {
	if d.c.Advertise == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(d.c.Advertise)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		d.advertisedIP = ip.Unmap()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		d.c.Log.Warn("the advertised name cannot be resolved: clients that want its IP address get none", "error", err)
		return nil
	}
	d.advertisedIP = ips[0].Unmap()
	for _, ip := range ips { // ElastiCache clients may support only IPv4
		if ip = ip.Unmap(); ip.Is4() {
			d.advertisedIP = ip
			break
		}
	}
	return nil
}

// clusterNode returns the daemon as config get cluster lists it, host|ip|port; empty without a TCP
// port. listening is the address of a port of the engine. The port in Config.Advertise is the
// memcached port's; any other port is advertised with the same host and its own number.
func (d *Daemon) clusterNode(listening net.Addr, memcached bool) string {
	tcp, ok := listening.(*net.TCPAddr)
	if d.c.Advertise != "" && (memcached || ok) {
		host, port, err := net.SplitHostPort(d.c.Advertise)
		if err != nil { // Validate has checked it
			return ""
		}
		ip := ""
		if d.advertisedIP.IsValid() {
			ip = d.advertisedIP.String()
		}
		if !memcached {
			port = strconv.Itoa(tcp.Port)
		}
		return host + "|" + ip + "|" + port
	}
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.IsUnspecified() {
		ip = ownAddress()
	}
	return fmt.Sprintf("%v|%v|%d", ip, ip, tcp.Port)
}

// ownAddress returns the address from which this host reaches the rest of the world, or the
// loopback address. It sends nothing: connecting a UDP socket only looks up a route.
func ownAddress() netip.Addr {
	for _, documentation := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		if c, err := net.Dial("udp", documentation); err == nil {
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
