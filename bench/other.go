//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: it runs on Linux only: it polls with epoll and reads /proc")
	os.Exit(1)
}
