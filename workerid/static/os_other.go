//go:build !linux

package static

import (
	"io"
	"io/fs"
	"os"
)

func datasync(f *os.File) error { return f.Sync() }

func fileID(fs.FileInfo) string { return "" }

// fileSystem cannot be told here: every one is taken.
func fileSystem(string) (string, error) { return "", nil }

// claim exists on Linux only; elsewhere the lock of the state file is what finds a second process.
func claim(string) (io.Closer, error) { return nil, nil }

func readClocks() Clocks { return processClocks() }
