package kinds

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
)

// CheckName returns why nothing can have this name, or nil.
func CheckName(name string) error {
	switch {
	case len(name) < 1 || len(name) > MaxName || strings.ContainsFunc(name, notInNames):
		return fmt.Errorf("the name %.70q: 1 to %d of the characters A-Z a-z 0-9 _ . : { } - are allowed", name, MaxName)
	case Reserved([]byte(name)):
		return fmt.Errorf("the name %q: id, and names of digits alone, stand for the default kind", name)
	case name == Others:
		return fmt.Errorf("the name %q: /metrics uses it for the names beyond the first thousand", name)
	}
	return nil
}

// Reserved reports whether a key always stands for the default kind: "id", and digits alone, which
// kayac/go-katsubushi's clients send.
func Reserved(key []byte) bool {
	if string(key) == "id" {
		return true
	}
	for _, c := range key {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(key) > 0
}

func notInNames(c rune) bool {
	return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("_.:{}-", c))
}

// kindNames lists the kinds for error messages.
func kindNames() string {
	var names []string
	for _, k := range table {
		names = append(names, k.kind)
	}
	return strings.Join(names, ", ") + " allowed"
}

func optionNames(options []option) string {
	var names []string
	for _, o := range options {
		names = append(names, o.name+"=")
	}
	return strings.Join(names, " ")
}

// number returns the setter of a number from 1 to limit. An option that was not given stays 0.
func number(field func(*Definition) *uint64, limit uint64) func(*Definition, string) error {
	return func(d *Definition, value string) error {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || n < 1 || n > limit {
			return fmt.Errorf("1 to %d allowed", limit)
		}
		*field(d) = n
		return nil
	}
}

func setOrder(d *Definition, value string) error {
	if value != "free" && value != "strict" {
		return errors.New("free or strict allowed")
	}
	d.Strict = value == "strict"
	return nil
}

// setNode sets a worker id, which may be 0.
func setNode(d *Definition, value string) error {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return errors.New("a worker id of the layout is allowed")
	}
	d.Time.Node = n
	return nil
}

func setAhead(d *Definition, value string) error {
	ahead, err := time.ParseDuration(value)
	if err != nil || ahead < counter.MinAhead || ahead > counter.MaxAhead || ahead%time.Millisecond != 0 {
		return fmt.Errorf("%v to %v allowed, in whole milliseconds", counter.MinAhead, counter.MaxAhead)
	}
	d.Time.Ahead = ahead
	return nil
}

func setOnLoss(d *Definition, value string) error {
	if value != "continue" && value != "refuse" {
		return errors.New("continue or refuse allowed")
	}
	d.RefuseLoss = value == "refuse"
	return nil
}

func setLayout(d *Definition, value string) error {
	l, err := ParseLayout(value, "with order=strict ")
	if err == nil {
		d.Layout = l.Name
	}
	return err
}

// ParseLayout is generator.ParseLayout with errors for users. when says when segments are allowed.
func ParseLayout(text, when string) (generator.Layout, error) {
	l, err := generator.ParseLayout(text)
	switch {
	case err == nil:
		return l, nil
	case strings.Contains(text, ":"):
		return l, errors.New(strings.TrimPrefix(err.Error(), "generator: "))
	}
	var names []string
	for _, l := range generator.Layouts() {
		names = append(names, l.Name)
	}
	return l, errors.New(strings.Join(names, ", ") + " allowed, or " + when + generator.Segments)
}
