package clients

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// The kernel's messages: netlink(7), sock_diag(7), and linux/inet_diag.h and linux/tcp.h for what stands where.
const (
	byFamily = 20 // SOCK_DIAG_BY_FAMILY, of requests and answers
	failed   = 2  // NLMSG_ERROR
	done     = 3  // NLMSG_DONE

	headerSize  = 16
	requestSize = headerSize + 56
	socketSize  = 72

	inet, inet6 = 2, 10
	tcp         = 6
	established = 1
	info        = 2 // INET_DIAG_INFO, an attribute that holds a tcp_info
	ackedAt     = 120
	receivedAt  = 128
)

var (
	errMalformed = errors.New("the kernel's answer cannot be read")
	errRefused   = errors.New("the kernel does not say which connections there are")
	errLate      = errors.New("the kernel has not told all connections in time")
)

var native = binary.NativeEndian

// request asks for all established TCP connections of a family from a local port, each with its tcp_info.
func request(family byte, port uint16, number uint32) []byte {
	b := make([]byte, requestSize)
	native.PutUint32(b, requestSize)
	native.PutUint16(b[4:], byFamily)
	native.PutUint16(b[6:], 0x1|0x300) // NLM_F_REQUEST, NLM_F_DUMP
	native.PutUint32(b[8:], number)
	r := b[headerSize:]
	r[0], r[1], r[2] = family, tcp, 1<<(info-1)
	native.PutUint32(r[4:], 1<<established)
	binary.BigEndian.PutUint16(r[8:], port)
	return b
}

// parse reads what the kernel sends at a time of its answer to a request. It calls each for each connection, until that
// returns false. ended says that nothing more is to be read, for whichever of these reasons.
func parse(b []byte, number uint32, each func(socket) bool) (ended bool, err error) {
	for len(b) > 0 {
		if len(b) < headerSize {
			return true, errMalformed
		}
		n := native.Uint32(b)
		if n < headerSize || uint64(n) > uint64(len(b)) {
			return true, errMalformed
		}
		body, kind, mine := b[headerSize:n], native.Uint16(b[4:]), native.Uint32(b[8:]) == number
		b = b[min(aligned(int(n)), len(b)):]
		switch {
		case !mine: // of a request that was given up
		case kind == failed, kind == done && len(body) >= 4 && int32(native.Uint32(body)) < 0:
			return true, errRefused
		case kind == done:
			return true, nil
		case kind == byFamily:
			s, ok := parseSocket(body)
			if !ok {
				return true, errMalformed
			}
			if s.remote.IsValid() && !each(s) {
				return true, nil
			}
		}
	}
	return false, nil
}

// aligned is where what follows n bytes begins.
func aligned(n int) int { return (n + 3) &^ 3 }

// parseSocket reads an inet_diag_msg. A connection of another family has no addresses; one without a tcp_info has
// counted nothing.
func parseSocket(b []byte) (s socket, ok bool) {
	if len(b) < socketSize {
		return s, false
	}
	s.local = netip.AddrPortFrom(address(b[0], b[8:24]), binary.BigEndian.Uint16(b[4:]))
	s.remote = netip.AddrPortFrom(address(b[0], b[24:40]), binary.BigEndian.Uint16(b[6:]))
	s.cookie = uint64(native.Uint32(b[44:])) | uint64(native.Uint32(b[48:]))<<32
	for b = b[socketSize:]; len(b) >= 4; {
		n, kind := int(native.Uint16(b)), native.Uint16(b[2:])
		if n < 4 || n > len(b) {
			return s, false
		}
		if value := b[4:n]; kind == info && len(value) >= receivedAt+8 {
			s.in, s.out = native.Uint64(value[receivedAt:]), native.Uint64(value[ackedAt:])
		}
		b = b[min(aligned(n), len(b)):]
	}
	return s, true
}

// address reads the 16 bytes of an address.
func address(family byte, b []byte) netip.Addr {
	switch family {
	case inet:
		return netip.AddrFrom4([4]byte(b))
	case inet6:
		return netip.AddrFrom16([16]byte(b)).Unmap()
	}
	return netip.Addr{}
}
