// Package events keeps the last changes of the daemon's state, for /debug/events and the status page: what
// the log says at INFO and above, whatever level the log shows.
//
// The guarantee: nothing that clients do pushes a change of state out. Whoever logs what a connection or a
// request can cause logs it past the Handler. And a text that comes again and again takes the place of its
// own oldest entries, not of others. Not promised: that all of the last changes are there, and that any
// outlive the process.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	Size     = 200 // most events that are kept
	fair     = 50  // a text that is there more often than this gives way first
	maxText  = 1024
	maxAttrs = 32
)

// An Event is a line of the log. Its attributes are whole: those of groups have the group's name and a dot
// before theirs, and none refers to memory of whoever logged it.
type Event struct {
	At    time.Time
	Level slog.Level
	Text  string
	Attrs []slog.Attr
}

// A Log keeps the last events. The zero value is ready; any goroutine may use it at any time.
type Log struct {
	mu   sync.Mutex
	list []Event // oldest first
}

// Handler returns a handler that keeps what is logged, and passes on to next what next wants.
func (l *Log) Handler(next slog.Handler) slog.Handler { return handler{log: l, next: next} }

// Last returns the last n events, newest first. They are the caller's own, but for their attributes, which
// nobody may change.
func (l *Log) Last(n int) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.list[max(0, len(l.list)-max(0, n)):])
	slices.Reverse(list)
	return list
}

func (l *Log) keep(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= Size {
		at := l.leastMissed()
		l.list = slices.Delete(l.list, at, at+1)
	}
	l.list = append(l.list, e)
}

// leastMissed returns the index of the event that goes next.
func (l *Log) leastMissed() int {
	times := map[string]int{}
	most := 0
	for _, e := range l.list {
		times[e.Text]++
		most = max(most, times[e.Text])
	}
	if most <= fair {
		return 0
	}
	return slices.IndexFunc(l.list, func(e Event) bool { return times[e.Text] == most })
}

// A handler is immutable.
type handler struct {
	log    *Log
	next   slog.Handler
	attrs  []slog.Attr // whole, of WithAttrs
	prefix string      // of WithGroup
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		e := Event{At: r.Time, Level: r.Level, Text: cut(r.Message), Attrs: slices.Clone(h.attrs)}
		r.Attrs(func(a slog.Attr) bool {
			e.Attrs = appendWhole(e.Attrs, h.prefix, a)
			return true
		})
		h.log.keep(e)
	}
	if h.next.Enabled(ctx, r.Level) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	h.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		h.attrs = appendWhole(h.attrs, h.prefix, a)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.next = h.next.WithGroup(name)
		h.prefix += name + "."
	}
	return h
}

// appendWhole appends a, or what it consists of, to list, as values that refer to nothing else.
func appendWhole(list []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	switch {
	case len(list) >= maxAttrs || a.Equal(slog.Attr{}):
		return list
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, part := range v.Group() {
			list = appendWhole(list, prefix, part)
		}
		return list
	case v.Kind() == slog.KindAny:
		v = slog.StringValue(cut(fmt.Sprintf("%+v", v.Any()))) // as slog's text form has it
	case v.Kind() == slog.KindString:
		v = slog.StringValue(cut(v.String()))
	}
	return append(list, slog.Attr{Key: prefix + a.Key, Value: v})
}

// cut returns at most maxText bytes of s, and says so if it is not all.
func cut(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}
