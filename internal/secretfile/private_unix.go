//go:build unix

package secretfile

import (
	"io/fs"
	"os"
	"syscall"
)

func private(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return permitted(info.Mode(), ok && s.Uid == 0 && os.Geteuid() != 0)
}
