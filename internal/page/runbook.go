package page

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/katsubushi/katsubushi/v3/docs"
)

// What each finding links to: docs/RUNBOOK.md as a page, out of the program itself, since whoever needs it may reach
// nothing else. It knows as much of Markdown as that file uses, some hundred lines of code; a library would be a
// dependency more, and make markup that did not go through writer. What it does not know a test says.

// entries are the headings of the runbook that the findings of a rule link to, where a finding does not say another.
var entries = map[string]string{
	"not ready": "KatsubushiNotReady", "lanes": "KatsubushiLeaseNotExtended", "names": "KatsubushiNameNotReady",
	"groups": "KatsubushiGroupWithoutLeader", "alarms": "KatsubushiPeersAlarm", "reload": "Starting, stopping, the log",
	"time field": "KatsubushiTimeFieldEnds", "certificate": "KatsubushiCertificateExpires",
	"connections": "KatsubushiConnectionLimit", "refusals": "Clients are refused", "clock": "KatsubushiClockStepped",
	"store": "KatsubushiStoreFails", "memory": "KatsubushiMemoryBudget", "run-ahead": "Clients are refused",
	"log": "KatsubushiLogLinesLost", "descriptors": "KatsubushiAcceptFails", "record": "KatsubushiNoRecord",
}

// anchor is what a heading is linked by, as GitHub has it.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors().ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

var notInAnchors = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[^\w -]`)
})

// Runbook serves the runbook: as a page to browsers, and as it is written to everybody else.
func Runbook() http.Handler {
	page := sync.OnceValue(func() []byte { return runbook(docs.Runbook) })
	policy := Policy()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			secure(w.Header(), "text/plain", "")
			w.Write([]byte(docs.Runbook))
			return
		}
		secure(w.Header(), "text/html", policy)
		w.Write(page())
	})
}

// runbook makes a page of Markdown.
func runbook(text string) []byte {
	w := new(writer)
	w.b = append(w.b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "+
		"content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"+
		"<title>Runbook · katsubushi</title><style>"...)
	w.b = append(w.b, css...)
	w.b = append(w.b, "</style></head><body class=\"book\"><p class=\"back\"><a href=\"./\">Status page</a></p><main>"...)
	for block := range strings.SplitSeq(comments().ReplaceAllString(text, ""), "\n\n") {
		w.block(strings.TrimSpace(block))
	}
	w.b = append(w.b, "</main></body></html>\n"...)
	return w.b
}

var comments = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<!--.*?-->\n?`)
})

// block appends what is between two empty lines: a heading, a table, commands, or a paragraph.
func (w *writer) block(block string) {
	lines := strings.Split(block, "\n")
	heading := strings.TrimLeft(lines[0], "#")
	switch level := len(lines[0]) - len(heading); {
	case block == "":
	case level > 0:
		tag := "h" + string(rune('0'+min(level, 3)))
		heading = strings.TrimSpace(heading)
		w.b = append(w.b, "<"+tag+` id="`...)
		w.escape(anchor(heading))
		w.b = append(w.b, `">`...)
		w.inline(heading)
		w.b = append(w.b, "</"+tag+">"...)
		w.block(strings.TrimSpace(strings.Join(lines[1:], "\n")))
	case strings.HasPrefix(lines[0], "```"):
		w.b = append(w.b, "<pre>"...)
		w.escape(strings.Join(lines[1:len(lines)-1], "\n"))
		w.b = append(w.b, "</pre>"...)
	case strings.HasPrefix(lines[0], "|"):
		w.table(lines)
	default:
		w.b = append(w.b, "<p>"...)
		w.inline(strings.Join(lines, " "))
		w.b = append(w.b, "</p>"...)
	}
}

// table appends a table as a list: its first column is what somebody has seen, and is searched for.
func (w *writer) table(lines []string) {
	w.b = append(w.b, "<dl>"...)
	for _, line := range lines[min(2, len(lines)):] {
		for i, cell := range strings.Split(strings.Trim(line, "| "), " | ") {
			tag := "dd"
			if i == 0 {
				tag = "dt"
			}
			w.b = append(w.b, "<"+tag+">"...)
			w.inline(cell)
			w.b = append(w.b, "</"+tag+">"...)
		}
	}
	w.b = append(w.b, "</dl>"...)
}

// inlines are code, bold texts and links.
var inlines = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("`([^`]+)`|\\*\\*(.+?)\\*\\*|\\[([^\\]]+)\\]\\(([^)]+)\\)")
})

// inline appends a line of text. Links within the runbook are links; other pages are not here, so they are named.
func (w *writer) inline(s string) {
	wrap := func(tag string, text func(string), s string) {
		w.b = append(w.b, "<"+tag+">"...)
		text(s)
		w.b = append(w.b, "</"+tag+">"...)
	}
	for {
		m := inlines().FindStringSubmatch(s)
		if m == nil {
			w.escape(s)
			return
		}
		before, rest, _ := strings.Cut(s, m[0])
		w.escape(before)
		s = rest
		switch {
		case m[1] != "":
			wrap("code", w.escape, m[1])
		case m[2] != "":
			wrap("strong", w.inline, m[2])
		case strings.HasPrefix(m[4], "#"):
			w.b = append(w.b, `<a href="`...)
			w.escape(m[4])
			w.b = append(w.b, `">`...)
			w.inline(m[3])
			w.b = append(w.b, "</a>"...)
		default:
			file, _, _ := strings.Cut(m[4], "#")
			w.inline(m[3])
			if file != m[3] {
				w.escape(" (" + file + ")")
			}
		}
	}
}
