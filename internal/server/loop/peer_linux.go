package loop

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PeerOf asks the kernel for the address of a socket's peer, see PeerSession.
func PeerOf(fd int32) netip.Addr {
	var a unix.RawSockaddrAny
	n := uint32(unix.SizeofSockaddrAny)
	unix.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&n)))
	return AddressIn(&a) // after an error it has no address family
}

// AddressIn returns the IP address in a socket address, or the zero Addr if it has none.
func AddressIn(a *unix.RawSockaddrAny) netip.Addr {
	switch a.Addr.Family {
	case unix.AF_INET:
		return netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(a)).Addr)
	case unix.AF_INET6:
		return netip.AddrFrom16((*unix.RawSockaddrInet6)(unsafe.Pointer(a)).Addr).Unmap()
	}
	return netip.Addr{}
}
