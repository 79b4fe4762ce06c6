//go:build unix

package authfile

import "io/fs"

// privately says whether only the owner may read or write the file.
func privately(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
