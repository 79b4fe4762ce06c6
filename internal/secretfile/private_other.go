//go:build !unix

package secretfile

import "io/fs"

// private always returns true: on this system permission bits do not tell.
func private(fs.FileInfo) bool { return true }
