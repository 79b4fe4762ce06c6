package users

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// A File is a Store in a file; parse.go explains its lines.
type File struct {
	path string
	read atomic.Bool // by Changes, once at least
}

var _ Store = (*File)(nil)

// NewFile makes a Store of the file at path. It does not read it.
func NewFile(path string) *File { return &File{path: path} }

// Load reads the users of the file at path.
func Load(path string) ([]User, error) {
	text, err := secretfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	return parsed(path, text)
}

// First returns the first user with a plain password in the file at path, for a program on the same
// host that has to log in. ok = false: there is none.
func First(path string) (name, password string, ok bool, err error) {
	list, err := Load(path)
	for _, u := range list {
		if p, ok := u.secret.(plain); ok {
			return u.Name, string(p), true, nil
		}
	}
	return "", "", false, err
}

// parsed names the file in every line of the error.
func parsed(path string, text []byte) ([]User, error) {
	list, err := parse(text)
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, fmt.Errorf("%s: %w", path, e))
		}
		err = errors.Join(errs...)
	}
	return list, err
}

// Changes implements Store. It looks at the time and the size of the file before it reads it. A file that
// is not regular, such as a pipe, is read by the first call only: a later one might wait for ever for
// a writer.
func (f *File) Changes(_ context.Context, since string) (now string, list []User, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return since, nil, err
	}
	if now = stamp(info); now == since {
		return now, nil, nil
	}
	if f.read.Load() && !info.Mode().IsRegular() {
		return since, nil, notRegular(f.path)
	}
	if list, err = Load(f.path); err != nil {
		return since, nil, err
	}
	f.read.Store(true)
	return now, list, nil
}

func notRegular(path string) error { return fmt.Errorf("%s: not a regular file", path) }

func stamp(info fs.FileInfo) string {
	if !info.Mode().IsRegular() {
		return "not regular"
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), " ", info.Mode())
}

// Update implements Store. Other lines stay as they are. The file is replaced at once, with the mode and
// the owner that it had; a new one is for its owner only. Removing the last user is an error.
func (f *File) Update(_ context.Context, name string, change func(old *User) (*User, error)) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return notRegular(f.path)
	}
	text, err := secretfile.Read(f.path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var list []User
	if len(bytes.TrimSpace(text)) > 0 {
		if list, err = parsed(f.path, text); err != nil {
			return err
		}
	}
	var old *User
	for _, u := range list {
		if u.Name == name {
			old = &u
			break
		}
	}
	u, err := change(old)
	if err != nil || u == old {
		return err
	}
	edited := edit(text, name, u)
	if _, err := parsed(f.path, edited); err != nil {
		return err
	}
	return f.replace(edited)
}

// edit puts a user in place of all lines of that name; nil removes them.
func edit(text []byte, name string, u *User) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if of, _, _ := bytes.Cut(line, []byte(":")); string(of) != name {
			out = append(out, line...)
		} else if u != nil {
			out = append(out, u.line()+"\n"...)
			u = nil
		}
	}
	if u != nil {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, u.line()+"\n"...)
	}
	return out
}

// replace writes the file anew. A reader sees the old content or the new one.
func (f *File) replace(text []byte) (err error) {
	path, err := filepath.EvalSymlinks(f.path) // a link stays one
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.path, nil
	}
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // for its owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(next.Name())
		}
	}()
	if info, e := os.Stat(path); e == nil {
		err = inherit(next, info)
	}
	if err == nil {
		_, err = next.Write(text)
	}
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}
