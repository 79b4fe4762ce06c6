package childprocess

import (
	"errors"
	"net"
	"strconv"
	"syscall"
)

// reserve takes a name that stands for a port, in the same network namespace. The kernel releases it
// when this process ends, however it does.
func reserve(port int) (release func(), ok bool) {
	l, err := net.Listen("unix", "@katsubushi-test-port-"+strconv.Itoa(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, false
	}
	if err != nil { // a sandbox without such names: the port's own check must do
		return func() {}, true
	}
	return func() { l.Close() }, true
}
