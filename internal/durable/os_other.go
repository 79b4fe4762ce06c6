//go:build !linux

package durable

import (
	"io/fs"
	"os"
	"time"
)

func datasync(f *os.File) error { return f.Sync() }

func fileID(fs.FileInfo) string { return "" }

// fileSystem cannot be told here: every one is taken.
func fileSystem(string) (string, error) { return "", nil }

func version(string, time.Time) Version { return Version{} }
