package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
)

// eventTime is how times are written: in UTC, to a ms, all of the same length.
const eventTime = "2006-01-02T15:04:05.000Z"

// An eventLine is an event as JSON has it.
type eventLine struct {
	Time  string         `json:"time"`
	Level string         `json:"level"`
	Text  string         `json:"text"`
	Attrs map[string]any `json:"attrs,omitempty"`
}

// showEvents answers with the last events, newest first: one line each, or JSON if that is accepted.
func showEvents(w http.ResponseWriter, r *http.Request, log *events.Log) {
	n := events.Size
	if s := r.URL.Query().Get("n"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > events.Size {
			http.Error(w, fmt.Sprintf("n=%.20q: 1 to %d allowed", s, events.Size), http.StatusBadRequest)
			return
		}
	}
	list := log.Last(n)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff") // texts may hold what others sent
	w.Header().Set("Vary", "Accept")
	if wantsJSON(r) {
		lines := make([]eventLine, 0, len(list))
		for _, e := range list {
			lines = append(lines, eventLine{e.At.UTC().Format(eventTime), e.Level.String(), e.Text, jsonAttrs(e.Attrs)})
		}
		writeJSON(w, lines)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, e := range list {
		fmt.Fprintln(w, textOf(e))
	}
}

// jsonAttrs returns the attributes with the values that JSON has: durations are in seconds.
func jsonAttrs(attrs []slog.Attr) map[string]any {
	if len(attrs) == 0 {
		return nil
	}
	m := map[string]any{}
	for _, a := range attrs {
		switch v := a.Value; v.Kind() {
		case slog.KindDuration:
			m[a.Key] = v.Duration().Seconds()
		case slog.KindTime:
			m[a.Key] = v.Time().UTC().Format(time.RFC3339Nano)
		case slog.KindFloat64:
			m[a.Key] = v.Float64()
			if _, err := json.Marshal(v.Float64()); err != nil { // infinite
				m[a.Key] = v.String()
			}
		default:
			m[a.Key] = v.Any()
		}
	}
	return m
}

// textOf returns an event as one line, whatever its texts hold.
func textOf(e events.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s", e.At.UTC().Format(eventTime), e.Level, printable(e.Text))
	for _, a := range e.Attrs {
		v := a.Value.String()
		if a.Value.Kind() == slog.KindTime {
			v = a.Value.Time().UTC().Format(time.RFC3339Nano)
		}
		if v == "" || strings.ContainsAny(v, ` "=`) || printable(v) != v {
			v = strconv.Quote(v)
		}
		fmt.Fprintf(&b, " %s=%s", printable(a.Key), v)
	}
	return b.String()
}

// printable returns s, quoted if it holds what could change how a terminal or a page shows it.
func printable(s string) string {
	if q := strconv.Quote(s); strings.Contains(q, `\`) {
		return q
	}
	return s
}
