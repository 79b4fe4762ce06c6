package resp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/section"
)

const protocolPage = "../../docs/PROTOCOL.md"

// TestCommandsAreDocumented: docs/PROTOCOL.md has each command of commands.txt that is answered, with what COMMAND
// DOCS says of it, by group.
func TestCommandsAreDocumented(t *testing.T) {
	var groups []string
	lines := map[string][]string{}
	say := func(e *entry) {
		if e.refused || e.summary == "" {
			return
		}
		if lines[e.group] == nil {
			groups = append(groups, e.group)
		}
		name := strings.ToUpper(strings.ReplaceAll(e.name, "|", " "))
		lines[e.group] = append(lines[e.group], fmt.Sprintf("`%s` %s%s", name, strings.ToLower(e.summary[:1]),
			strings.TrimSuffix(e.summary[1:], ".")))
	}
	for _, e := range entries {
		if len(e.sub) == 0 || !strings.Contains(e.summary, "container") {
			say(e)
		}
		for _, sub := range e.sub {
			if !strings.HasSuffix(sub.name, "|help") {
				say(sub)
			}
		}
	}
	if len(groups) < 5 || !slices.Contains(groups, "transactions") {
		t.Fatalf("only %q", groups)
	}
	var list strings.Builder
	for _, group := range groups {
		fmt.Fprintf(&list, "- **%s**: %s.\n", group, strings.Join(lines[group], "; "))
	}
	section.Check(t, protocolPage, "Redis's commands", list.String(), *update)
}
