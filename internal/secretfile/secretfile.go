// Package secretfile reads files that hold a secret, such as a password or a private key. It
// refuses files that other users can read.
package secretfile

import (
	"fmt"
	"io"
	"os"
)

// Read returns the content of the file at path, at most limit bytes long. It refuses a file that
// users other than its owner may read or write. One exception: if root owns the file and this
// process is not root, its group may read it, because otherwise this process could not (Debian's
// ssl-cert group and Kubernetes' fsGroup work this way).
//
// The error's text contains the path. A later attempt may succeed, once somebody has corrected the
// file. The path may be a pipe.
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
	if info.IsDir() {
		return nil, fmt.Errorf("%s: a directory, not a file", path)
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

// permitted reports whether permission bits keep a secret. foreign: root owns the file, and this
// process is not root.
func permitted(mode os.FileMode, foreign bool) bool {
	others := mode.Perm() & 0o077
	return others == 0 || foreign && others == 0o040
}
