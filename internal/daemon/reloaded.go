package daemon

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// notReloaded is what the last reload could not read, and why. Any goroutine may use it.
type notReloaded struct {
	mu  sync.Mutex
	why map[string]error
}

// note takes the result of a reload; nil = it is in force.
func (n *notReloaded) note(what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.why == nil {
		n.why = map[string]error{}
	}
	n.why[what] = err
}

// list returns a line for each thing whose old content is in force.
func (n *notReloaded) list() (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(n.why)) {
		if err := n.why[what]; err != nil {
			lines = append(lines, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return lines
}
