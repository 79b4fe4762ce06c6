package server

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks the kernel for a socket's peer, see PeerSession.
func peerOf(fd int32) netip.Addr {
	var a unix.RawSockaddrAny
	n := uint32(unix.SizeofSockaddrAny)
	unix.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&n)))
	return addressIn(&a) // of no family after an error
}

// addressIn is the IP address in a socket address, the zero Addr if it has none.
func addressIn(a *unix.RawSockaddrAny) netip.Addr {
	switch a.Addr.Family {
	case unix.AF_INET:
		return netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(a)).Addr)
	case unix.AF_INET6:
		return netip.AddrFrom16((*unix.RawSockaddrInet6)(unsafe.Pointer(a)).Addr).Unmap()
	}
	return netip.Addr{}
}
