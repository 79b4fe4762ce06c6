// Package secretfile reads files that hold a secret, such as a password or a private key, and refuses those that others can read.
package secretfile

import (
	"fmt"
	"io"
	"os"
)

// Read returns the content of the file at path, which must have at most limit bytes. It refuses a file that others than its owner
// may read or write. One exception: where the file is root's and this process is not, its group may read it, since this process
// could not otherwise (Debian's ssl-cert group and Kubernetes' fsGroup work this way).
//
// The error's text has the path. An attempt may succeed later, after somebody has mended the file. The path may be a pipe.
func Read(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !private(info) {
		return nil, fmt.Errorf("%s: mode %#o lets others use the secret in it: chmod 600 it", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, limit)
	}
	return text, nil
}

// permitted says whether permission bits keep a secret. foreign: the file is root's, and this process is not root.
func permitted(mode os.FileMode, foreign bool) bool {
	others := mode.Perm() & 0o077
	return others == 0 || foreign && others == 0o040
}
