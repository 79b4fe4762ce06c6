// Package problem is the one way in which a part of the program says what is wrong with its settings:
// all of it at once, each with the name of its field, so that whoever read them can say which flag or
// variable that was.
package problem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Setting is one that is wrong.
type Setting struct {
	Field string // of the Config that was looked at; empty where no single one is to blame
	Err   error
}

func (e *Setting) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *Setting) Unwrap() error { return e.Err }

// A List is all that is wrong. The zero value is none.
type List []*Setting

// Add notes a problem of a field, once: the sockets of one port have the same. format is fmt.Errorf's.
func (p *List) Add(field, format string, args ...any) {
	one := &Setting{field, fmt.Errorf(format, args...)}
	if !slices.ContainsFunc(*p, func(e *Setting) bool { return e.Error() == one.Error() }) {
		*p = append(*p, one)
	}
}

// Include notes what a part found. prefix goes before the names of its fields.
func (p *List) Include(prefix string, err error) {
	for _, e := range Of(err) {
		*p = append(*p, &Setting{prefix + e.Field, e.Err})
	}
}

// Err is nil without problems, else all of them, a line each. Of takes it apart again.
func (p List) Err() error {
	var errs []error
	for _, e := range p {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Allowed says which words a setting may be.
func Allowed(words ...string) string {
	last := len(words) - 1
	return strings.TrimPrefix(strings.Join(words[:last], ", ")+" or "+words[last], " or ") + " allowed"
}

// Plain is err without the names of fields, for somebody who has set none of them.
func Plain(err error) error {
	var errs []error
	for _, e := range Of(err) {
		errs = append(errs, e.Err)
	}
	return errors.Join(errs...)
}

// Of takes an error apart that may be of several settings. What is of none has no Field. nil has no
// parts.
func Of(err error) List {
	switch e := err.(type) {
	case nil:
		return nil
	case *Setting:
		return List{e}
	case interface{ Unwrap() []error }:
		if errors.Join(e.Unwrap()...).Error() != err.Error() {
			break // one problem in words of its own, with several causes
		}
		var all List
		for _, part := range e.Unwrap() {
			all = append(all, Of(part)...)
		}
		return all
	}
	return List{{"", err}}
}
