package daemon

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

// TestLeaderFigures: what `stats generators` and /metrics show of leaders. figuresDaemon has no election.
func TestLeaderFigures(t *testing.T) {
	dir := t.TempDir()
	until := regexp.MustCompile(`^((?:katsubushi_)?leader_until_\w+) .*`) // it is measured by the machine's clock
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		leadAll(t, d)
		var lines []string
		for _, line := range append(d.statLines("generators"), d.metricLines()...) {
			if strings.Contains(line, "leader") || strings.Contains(line, "forward_") {
				lines = append(lines, until.ReplaceAllString(line, "$1 VARIES"))
			}
		}
		compare(t, "leaders", lines)
	})
}
