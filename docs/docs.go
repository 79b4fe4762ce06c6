// Package docs is what the program shows of its documentation where nothing else can be reached.
package docs

import _ "embed" // the runbook

// Runbook is RUNBOOK.md.
//
//go:embed RUNBOOK.md
var Runbook string
