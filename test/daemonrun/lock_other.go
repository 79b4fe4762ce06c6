//go:build !linux

package daemonrun

// lock does nothing: run one package at a time on other systems.
func lock(string) (unlock func() error, err error) { return func() error { return nil }, nil }
