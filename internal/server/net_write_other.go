//go:build !unix

package server

// prepareWrite leaves c.raw alone: here a socket cannot be tried.
func (c *netConn) prepareWrite() {}
