// Package engines holds the table of engines, and the test suite that all of them must pass.
package engines

import (
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/std"
)

// A candidate is an engine compiled into this program.
type candidate struct {
	name  string
	make  func(server.Config) server.Engine
	probe func(loops int) error // returns why it cannot run here, or nil
}

func netCandidate() candidate {
	return candidate{"net", func(c server.Config) server.Engine { return std.New(c) }, func(int) error { return nil }}
}

const auto = "auto"

// Names returns what Choose takes.
func Names() []string { return namesOf(candidates()) }

func namesOf(from []candidate) []string {
	names := []string{auto}
	for _, c := range from {
		names = append(names, c.name)
	}
	return names
}

// Choose returns the engine to use with so many loops. "uring", "epoll" and "net" select that engine, or return an
// error with the reason why it cannot run; "auto" selects the first of them that runs here. reason
// is for the log. "net" always serves the encrypted ports, beside the chosen engine.
func Choose(name string, loops int) (make func(server.Config) server.Engine, reason string, err error) {
	alone, reason, err := choose(name, loops, candidates())
	if err != nil {
		return nil, "", err
	}
	return func(c server.Config) server.Engine { return newBeside(alone(c), c) }, reason, nil
}

func choose(name string, loops int, from []candidate) (
	make func(server.Config) server.Engine, reason string, err error) {
	var refused []string
	for _, c := range from {
		if name != c.name && name != auto {
			continue
		}
		err := c.probe(loops)
		switch {
		case err == nil && name == auto && len(refused) == 0:
			return c.make, c.name + " is the fastest that runs here", nil
		case err == nil && name == auto:
			return c.make, strings.Join(refused, "; "), nil
		case err == nil:
			return c.make, "it was asked for", nil
		case name == c.name:
			return nil, "", fmt.Errorf("engine %s: %w", name, err)
		}
		refused = append(refused, "not "+c.name+": "+err.Error())
	}
	return nil, "", fmt.Errorf("engine %q: %s", name, problem.Allowed(namesOf(from)...))
}
