package main

import (
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// The floors are servers in C that answer every read with the same bytes. What they cost is the
// kernel's part of any server of their kind.
//
//go:embed floor/*.c floor/*.h
var floorSource embed.FS

// floorPeer is the floor of a kind, epoll or uring. It is compiled here; without a C compiler it
// does not start, and the report says so.
func floorPeer(kind string) peer {
	return peer{name: "floor " + kind, speech: "memcached", canned: true,
		command: func(at endpoint, _ int, dir string) []string {
			if at.via != overTCP {
				return nil
			}
			_, port, _ := net.SplitHostPort(at.address)
			return []string{filepath.Join(dir, "floor-"+kind), port}
		}}
}

// buildFloor compiles a floor into dir.
func buildFloor(kind, dir string) error {
	for _, name := range []string{"floor.h", kind + ".c"} {
		b, err := floorSource.ReadFile("floor/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	out, err := exec.Command("cc", "-O2", "-Wall", "-Wextra", "-o", filepath.Join(dir, "floor-"+kind),
		filepath.Join(dir, kind+".c")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the %s floor: %w\n%s", kind, err, out)
	}
	return nil
}
