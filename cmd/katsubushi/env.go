package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// variables holds the environment's variables by name.
type variables map[string]string

// variablesOf takes what os.Environ returns.
func variablesOf(list []string) variables {
	env := variables{}
	for _, pair := range list {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

const prefix = "KATSUBUSHI_"

// variables returns the names of a setting in the environment.
func (s *setting) variables() []string {
	upper := strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
	if !s.bare {
		return []string{prefix + upper}
	}
	return []string{prefix + upper, upper, strings.ToLower(upper)}
}

// usage returns the help of a setting, with its names in the environment. It leaves out the lower-case
// names: -h all mentions them once.
func (s *setting) usage() string {
	names := s.variables()
	return s.help + " [" + strings.Join(names[:min(len(names), 2)], ", ") + "]"
}

// environment returns a setting's value and the variable that gave it, or "". Two variables with
// different values are an error.
func (s *setting) environment(env variables) (name, value string, err error) {
	for _, n := range s.variables() {
		v := env[n]
		switch {
		case v == "" || isServiceLink(n, v): // empty means not set
		case name == "":
			name, value = n, v
		case v != value:
			return name, value, fmt.Errorf("%s and %s are the same setting and have different values", name, n)
		}
	}
	if first, _, _ := strings.Cut(env["STATE_DIRECTORY"], ":"); s.name == "state-dir" && name == "" && first != "" {
		return "STATE_DIRECTORY", first, nil // systemd lists all of a unit
	}
	return name, value, nil
}

// Kubernetes gives every container the address of each service. For a service named katsubushi it
// sets KATSUBUSHI_SERVICE_HOST, KATSUBUSHI_PORT_11212_TCP_ADDR and
// KATSUBUSHI_PORT=tcp://10.0.0.1:11212, which is also the variable of -port.
var (
	serviceName  = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func isServiceLink(name, value string) bool {
	return serviceName.MatchString(name) || (strings.HasSuffix(name, "_PORT") || name == "PORT") &&
		serviceValue.MatchString(value)
}

// notOurs lists variables of the Makefile and the tests, and one that images set. The daemon ignores
// them without a warning.
var notOurs = []string{"ARGS", "CHAOS_LANES", "CHAOS_MINUTES", "CHAOS_OLD", "KAYAC", "REQUIRE", "SEED", "SOAK",
	"UPGRADE", "VERSION", "YARAUS"}

// unknownVariables returns a note for each variable that looks like a setting but is none.
func unknownVariables(env variables) (notes []string) {
	known := map[string]bool{}
	for _, name := range notOurs {
		known[prefix+name] = true
	}
	for _, s := range everySetting() {
		for _, name := range s.variables() {
			known[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, prefix) && !known[name] && env[name] != "" && !isServiceLink(name, env[name]) {
			notes = append(notes, name+" is not a setting: katsubushi -h all lists their names")
		}
	}
	return notes
}

// warn prints notes about variables that are no settings.
func (p *parsed) warn(stderr io.Writer) {
	for _, note := range p.unknown {
		fmt.Fprintln(stderr, "warning:", note)
	}
}
