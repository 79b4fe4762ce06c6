package line

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const fields = "1 name=%s start=%d step=%d offset=%d max=%d batch=%d strict=%t rate=%d refuse=%t next=%d floor=%d " +
	"retired=%t token=%s " +
	"created=%d seen=%d lead=%d epsilon=%d base=%d history=%s safe=%t foreign=%t"

// ErrVersion: another program wrote the record, so this one must not write over it.
var ErrVersion = errors.New("a record of another version")

// Encode returns the record as text, in one way only. Its first word is the version of the format.
func (r *Record) Encode() string {
	return fmt.Sprintf(fields, r.Name, r.Start, r.Step, r.Offset, r.Max, r.Batch, r.Strict, r.Rate, r.RefuseLoss, r.Next,
		r.Floor, r.Retired, r.Token,
		r.Created, r.Seen, r.Lead, r.Epsilon, r.Base, r.History, r.Safe, r.Foreign)
}

// maxTime is the largest time that is read, Unix ms: the year 5138.
const maxTime = 1e14

// Decode reads what Encode wrote. Other programs may have written something else.
func Decode(s string) (r Record, err error) {
	version, _, _ := strings.Cut(fields, " ")
	first, _, _ := strings.Cut(s, " ")
	if _, err := strconv.ParseUint(first, 10, 16); err == nil && first != version {
		return Record{}, fmt.Errorf("%w: %s, and this program knows %s", ErrVersion, first, version)
	}
	_, err = fmt.Sscanf(s, fields, &r.Name, &r.Start, &r.Step, &r.Offset, &r.Max, &r.Batch, &r.Strict, &r.Rate,
		&r.RefuseLoss, &r.Next, &r.Floor,
		&r.Retired, &r.Token, &r.Created, &r.Seen, &r.Lead, &r.Epsilon, &r.Base, &r.History, &r.Safe, &r.Foreign)
	if err == nil && r.Encode() != s {
		err = fmt.Errorf("it is written in another way")
	}
	if err == nil {
		err = r.Check()
	}
	if err == nil {
		err = r.sane()
	}
	if err != nil {
		return Record{}, fmt.Errorf("redis: %.300q is no record of a sequence: %w", s, err)
	}
	return r, nil
}

// sane is Check for what only records in Redis have.
func (r *Record) sane() error {
	in := func(v int64) bool { return v >= 0 && v <= maxTime }
	switch {
	case !in(r.Created) || !in(r.Seen) || !in(r.Lead) || !in(r.Epsilon):
		return fmt.Errorf("a time is out of range")
	case r.History == "":
		return fmt.Errorf("it has no token or no history")
	}
	return CheckName(r.Name)
}

// CheckName refuses names that could not be read back.
func CheckName(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("%.70q: 1 to 64 printable characters without spaces allowed", name)
	}
	return nil
}
