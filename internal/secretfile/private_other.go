//go:build !unix

package secretfile

import "io/fs"

// private cannot be told from permission bits here.
func private(fs.FileInfo) bool { return true }
