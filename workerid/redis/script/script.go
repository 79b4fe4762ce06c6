package script

import (
	"cmp"
	"embed"
	"fmt"
	"strconv"
)

//go:embed *.lua
var sources embed.FS

// Text returns a script of this package by its file's name, without .lua. It runs inside Redis, in one atomic step.
func Text(name string) (text string) {
	for _, part := range []string{"common", name} {
		b, err := sources.ReadFile(part + ".lua")
		if err != nil {
			panic(err) // an embedded file
		}
		text += string(b)
	}
	return text
}

// Keys returns the keys of a pool, in the order in which the scripts take them. In a cluster all of
// them must be in one slot.
func Keys(namespace string, cluster bool) []string {
	if cluster {
		namespace = "{" + namespace + "}"
	}
	return []string{namespace + ":ids", namespace + ":clients", namespace + ":stats", namespace + ":hw",
		namespace + ":meta"}
}

// Terms are the settings that all daemons of a pool share. Every call includes them. Times are in ms.
type Terms struct {
	Fingerprint string // of the settings that must be equal in one pool; no spaces. Empty: an operator, not checked
	// how far a window reaches into the future. 0: an operator; the pool's own lease and Epsilon
	// apply
	Lease    int64
	MaxLease int64 // the longest lease of any program that uses the pool
	MaxSkew  int64 // between the server's clock and a daemon's
	Epsilon  int64 // between any two clocks, with some margin
	// how many must have a grant before it counts; the pool's own number takes precedence.
	// Negative: not checked
	Replicas int
	Min, Max uint64 // worker ids. Min > Max: the pool's own
}

// Lenient returns terms that accept a server's clock that went back.
func (t Terms) Lenient() Terms {
	t.MaxSkew = 1e15 // more than any time that the scripts read
	return t
}

// args returns the common arguments. now is the daemon's clock in Unix ms, 0 for an operator.
func (t Terms) args(now int64, requestID string) []string {
	args := []string{t.Fingerprint, ms(t.Lease), ms(t.MaxLease), ms(t.MaxSkew), ms(t.Epsilon), "", "", "", "", requestID}
	if now != 0 {
		args[5] = ms(now)
	}
	if t.Replicas >= 0 {
		args[6] = strconv.Itoa(t.Replicas)
	}
	if t.Min <= t.Max {
		args[7], args[8] = id(t.Min), id(t.Max)
	}
	return args
}

func ms(n int64) string  { return strconv.FormatInt(n, 10) }
func id(n uint64) string { return strconv.FormatUint(n, 10) }

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// Member returns a worker id's name in the pool's keys.
func Member(worker uint64) string {
	s := id(worker)
	return string(rune('A'+len(s)-1)) + s
}

// ParseMember returns the worker id of a member.
func ParseMember(s string) (uint64, error) {
	if len(s) >= 2 && s[0] == byte('A'+len(s)-2) {
		if n, err := strconv.ParseUint(s[1:], 10, 64); err == nil && Member(n) == s {
			return n, nil
		}
	}
	return 0, fmt.Errorf("redis: %q is no worker id", s)
}

// An answer reads the values that a script returned, in order. It stops at the first malformed one.
type answer struct {
	values []any
	err    error
}

func read(reply any) *answer {
	values, ok := reply.([]any)
	if !ok {
		return &answer{err: fmt.Errorf("redis: a script returned %T", reply)}
	}
	return &answer{values: values}
}

func (a *answer) next() any {
	if len(a.values) == 0 {
		if a.err == nil {
			a.err = fmt.Errorf("redis: a script returned less than it should")
		}
		return nil
	}
	v := a.values[0]
	a.values = a.values[1:]
	return v
}

func (a *answer) text() string {
	v := a.next()
	s, ok := v.(string)
	if !ok && a.err == nil {
		a.err = fmt.Errorf("redis: a script returned %v where a text should be", v)
	}
	return s
}

func (a *answer) number() int64 {
	v := a.next()
	if n, ok := v.(int64); ok {
		return n
	}
	s, ok := v.(string)
	n, err := strconv.ParseInt(s, 10, 64)
	if (!ok || err != nil) && a.err == nil {
		a.err = fmt.Errorf("redis: a script returned %v where a number should be", v)
	}
	return n
}

func (a *answer) worker() uint64 {
	n, err := ParseMember(a.text())
	a.err = cmp.Or(a.err, err)
	return n
}

// Server is what every script that writes returns about the server.
type Server struct {
	Now         int64  // its clock, Unix ms
	Incarnation string // the incarnation of the store, see the package comment
	Needed      int    // replicas that must have what was written
	Replicas    int    // replicas that are connected
}

func (a *answer) server() Server {
	return Server{Now: a.number(), Incarnation: a.text(), Needed: int(a.number()), Replicas: int(a.number())}
}
