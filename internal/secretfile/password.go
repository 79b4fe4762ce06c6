package secretfile

import (
	"bytes"
	"fmt"
	"os"
)

const maxPassword = 4096 // bytes

// Password returns the password in the file at path, 1 to 4,096 bytes. A newline at the end is not part
// of it. The file is read for every connection, so it must be a regular one; otherwise the rules and
// errors are those of Read.
func Password(path string) (string, error) {
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: no regular file, and it is read for every connection", path)
	}
	text, err := Read(path, maxPassword+len("\r\n"))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s: no password is in it", path)
	case len(text) > maxPassword:
		return "", fmt.Errorf("%s: larger than %d bytes", path, maxPassword)
	}
	return string(text), nil
}
