package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A File is one to write.
type File struct {
	Path string // below the directory, with slashes
	Text string
}

// Write writes the files below dir, which it makes if need be. If one is there already, it writes none; if one
// cannot be written, it removes those that it has written, and the directories that it has made.
// Whatever the umask, all may read the files: the daemon's user must, and no file has a secret.
func Write(dir string, files []File) (err error) {
	var there []error
	for _, f := range files {
		if at := filepath.Join(dir, f.Path); exists(at) {
			there = append(there, fmt.Errorf("%s is there already, and is not overwritten", at))
		}
	}
	if len(there) > 0 {
		return errors.Join(there...)
	}
	var made []string
	defer func() {
		for i := len(made) - 1; err != nil && i >= 0; i-- {
			os.Remove(made[i])
		}
	}()
	for _, f := range files {
		at := filepath.Join(dir, f.Path)
		dirs, err := makeDirs(filepath.Dir(at))
		made = append(made, dirs...)
		if err != nil {
			return err
		}
		if err := create(at, f.Text, &made); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeDirs makes a directory and those above it, and returns those that were not there, the highest first.
func makeDirs(dir string) (made []string, err error) {
	if up := filepath.Dir(dir); up != dir && !exists(dir) {
		if made, err = makeDirs(up); err != nil {
			return made, err
		}
	}
	if err = os.Mkdir(dir, 0o755); err == nil {
		return append(made, dir), os.Chmod(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return made, err
}

// create writes a file that must not be there.
func create(path, text string, made *[]string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	*made = append(*made, path)
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}
