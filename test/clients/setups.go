//go:build linux

package main

import (
	_ "embed"
	"slices"
	"strings"
)

// setups are all set-ups but the programs of examples/.
var setups = slices.Concat(readme, section("clients"))

// readme and examples are sections of setups.txt.
var readme, examples = section("readme"), section("examples")

//go:embed setups.txt
var table string

// section reads the set-ups of a section of setups.txt.
func section(name string) (list []setup) {
	_, after, _ := strings.Cut(table, "\n== "+name+"\n")
	after, _, _ = strings.Cut(after, "\n== ")
	for line := range strings.Lines(after) {
		line = strings.TrimSuffix(line, "\n")
		if field, ok := strings.CutPrefix(line, "\t"); ok {
			field, value, _ := strings.Cut(field, " ")
			*list[len(list)-1].field(field) = value
		} else if head := strings.Split(line, " | "); len(head) == 3 {
			list = append(list, setup{name: head[0], language: head[1], protocol: head[2]})
		}
	}
	return list
}

func (s *setup) field(name string) *string {
	return map[string]*string{"needs": &s.needs, "build": &s.build, "snippet": &s.snippet, "run": &s.run, "does": &s.does,
		"shows": &s.shows, "lists": &s.lists, "optional": &s.optional, "server": &s.server, "hint": &s.hint}[name]
}
