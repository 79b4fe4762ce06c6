package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

const (
	CopySize = 4096         // bytes of one copy: a page, and a multiple of any disk's sector
	FileSize = 2 * CopySize // bytes of a file

	// MaxBody is how many bytes of a copy a record may take.
	MaxBody = CopySize - len("katsubushi ") - 32 - len("crc32c 00000000") - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// errChecksum: the copy is not as it was written.
	errChecksum = errors.New("checksum does not match")
	// ErrVersion: the copy is whole, but of another version. It must not be overwritten.
	ErrVersion = errors.New("written by another version of katsubushi")
)

// A Format is one kind of file: "katsubushi KIND VERSION" is the first line of each copy. The checksum
// (Castagnoli's polynomial, hexadecimal) is the last one:
//
//	katsubushi state 1
//	generation 42
//	...
//	crc32c 1a2b3c4d
//
// It covers everything before its line. The rest of the CopySize bytes are newlines, so that no byte
// can change unnoticed.
type Format struct {
	Kind, Version string // together at most 30 bytes
}

func (f Format) header() string { return "katsubushi " + f.Kind + " " }

var filling = strings.Repeat("\n", CopySize)

// Append appends one copy to b. The body is whole lines, at most MaxBody bytes.
func (f Format) Append(b []byte, body string) []byte {
	start := len(b)
	b = append(slices.Grow(b, CopySize), f.header()+f.Version+"\n"+body...)
	b = fmt.Appendf(b, "crc32c %08x", crc32.Checksum(b[start:], castagnoli))
	return append(b, filling[len(b)-start:]...)
}

// Body returns the body of one copy whose checksum is right. Whoever decodes it must also check that
// Append makes the same copy of the result; Same does.
func (f Format) Body(b []byte) (string, error) {
	if len(b) != CopySize {
		return "", fmt.Errorf("%d bytes where %d were expected", len(b), CopySize)
	}
	end := bytes.Index(b, []byte("\ncrc32c ")) + 1
	if end == 0 || end+len("crc32c 00000000") > len(b) || !bytes.HasPrefix(b, []byte(f.header())) {
		return "", fmt.Errorf("not a %s file", f.Kind)
	}
	sum, err := strconv.ParseUint(string(b[end+len("crc32c "):][:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(b[:end], castagnoli) {
		return "", errChecksum
	}
	first := f.header() + f.Version + "\n"
	if !bytes.HasPrefix(b, []byte(first)) {
		return "", ErrVersion
	}
	return string(b[len(first):end]), nil
}

// Same returns errChecksum unless b is exactly what Append makes of body: a copy that can be read but
// that nobody would have written so.
func (f Format) Same(b []byte, body string) error {
	if !bytes.Equal(f.Append(nil, body), b) {
		return errChecksum
	}
	return nil
}

// Recover finds the record of a whole file: that of the newer copy, if both are good. decode reads one
// copy and says of which generation it is. damaged says what is wrong with each copy that is not good;
// err is ErrVersion if one of them is of another version, and ErrDamaged if none is good.
func Recover[R any](b []byte, decode func([]byte) (R, uint64, error)) (r R, damaged []string, err error) {
	found, newest := false, uint64(0)
	for i, name := range []string{"first", "second"} {
		from := min(i*CopySize, len(b))
		part := b[from:min(from+CopySize, len(b))]
		if found && bytes.Equal(part, b[:CopySize]) { // as in a new file
			continue
		}
		c, generation, err := decode(part)
		switch {
		case errors.Is(err, ErrVersion):
			return *new(R), nil, err
		case err != nil:
			damaged = append(damaged, fmt.Sprintf("%s copy: %v", name, err))
		case !found || generation > newest:
			r, newest, found = c, generation, true
		}
	}
	if len(b) > FileSize {
		damaged = append(damaged, fmt.Sprintf("more than %d bytes", FileSize))
	}
	if !found {
		return r, damaged, fmt.Errorf("%w: %s", ErrDamaged, strings.Join(damaged, ", "))
	}
	return r, damaged, nil
}
