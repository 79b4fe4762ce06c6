package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	sdjournal "github.com/coreos/go-systemd/v22/journal"

	"github.com/katsubushi/katsubushi/v3/internal/logqueue"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
)

// The levels above slog's, as in kayac/go-katsubushi. The reason why the daemon ends is logged as
// fatal, which no -log-level hides.
const (
	levelPanic = slog.LevelError + 4
	levelFatal = slog.LevelError + 8
)

// How long the process waits at its end for the last lines to be written.
const (
	flushLimit = time.Second
	hurryLimit = 50 * time.Millisecond // after a second signal
)

// An ending ends a process that has a log: in order, or at once, which a second signal may demand
// while the process ends in order.
type ending struct {
	queue *logqueue.Writer
	way   chan struct{} // has room for one: the way in which the process ends
}

// inOrder waits for the log. It does not return if atOnce is called meanwhile.
func (e *ending) inOrder() {
	e.queue.Close(flushLimit)
	e.way <- struct{}{}
}

// atOnce exits the process as a failure. It does not return if the process has ended in order already.
func (e *ending) atOnce(exit func(code int)) {
	e.way <- struct{}{}
	e.queue.Close(hurryLimit)
	exit(exitFailure)
}

// openLog opens the log of a long-running process. Logging never blocks, and the process survives if
// the reader of the log goes away. Libraries log there too. The caller closes the queue before the
// process ends.
func openLog(stderr io.Writer, o options) (*slog.Logger, *logqueue.Writer) {
	if !signal.Ignored(syscall.SIGPIPE) {
		// Go ends a process that writes to a broken stderr, unless somebody is notified of SIGPIPE.
		// Ignoring the signal instead would be inherited by child processes.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	open := logger
	if isJournal(stderr) {
		open = journalLogger
	}
	queue := logqueue.New(stderr, func(n uint64) []byte {
		var line bytes.Buffer
		o.logLevel = slog.LevelInfo
		open(&line, o).Warn("log lines were lost: the log could not be written", "lines", n)
		return line.Bytes()
	})
	log := open(queue, o)
	slog.SetDefault(log) // and so the log of net/http
	slog.SetLogLoggerLevel(slog.LevelWarn)
	stores.LogTo(log)
	return log, queue
}

// logger logs to w synchronously.
func logger(w io.Writer, o options) *slog.Logger {
	ho := &slog.HandlerOptions{Level: o.logLevel, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.LevelKey && a.Value.Any() == levelFatal {
			a.Value = slog.StringValue("FATAL")
		}
		if a.Value.Kind() == slog.KindDuration { // in JSON it is a number of ns else
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, ho))
	}
	return slog.New(slog.NewTextHandler(w, ho))
}

// isJournal reports whether what is written to stderr becomes an entry of systemd's journal.
func isJournal(stderr io.Writer) bool {
	if stderr != (visible.Writer{To: os.Stderr}) {
		return false
	}
	is, err := sdjournal.StderrIsJournalStream()
	return is && err == nil
}

// A prioritized writes lines with a priority of syslog(3) before each. The journal takes the priority off
// and shows the line by it, see sd-daemon(3). Callers write whole lines.
type prioritized struct {
	out      io.Writer
	priority string
}

// Write implements io.Writer, with one write for each line.
func (p prioritized) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if _, err := p.out.Write(append([]byte(p.priority), line...)); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

// errorsTo returns where a process says that it cannot start, before it has a log.
func errorsTo(stderr io.Writer) io.Writer {
	if isJournal(stderr) {
		return prioritized{stderr, priorities[1].prefix}
	}
	return stderr
}

// priorities are those of syslog(3): each is for its level and those above, up to the one before.
var priorities = [...]struct {
	from   slog.Level
	prefix string
}{
	{levelPanic, "<2>"},
	{slog.LevelError, "<3>"},
	{slog.LevelWarn, "<4>"},
	{slog.LevelInfo, "<6>"},
	{math.MinInt, "<7>"},
}

// A journal logs to systemd's journal: by one handler for each of priorities.
type journal [len(priorities)]slog.Handler

// journalLogger logs to w synchronously, with priorities.
func journalLogger(w io.Writer, o options) *slog.Logger {
	var j journal
	for i, p := range priorities {
		j[i] = logger(prioritized{w, p.prefix}, o).Handler()
	}
	return slog.New(j)
}

// Enabled implements slog.Handler.
func (j journal) Enabled(ctx context.Context, level slog.Level) bool { return j[0].Enabled(ctx, level) }

// Handle implements slog.Handler.
func (j journal) Handle(ctx context.Context, r slog.Record) error {
	i := 0
	for r.Level < priorities[i].from {
		i++
	}
	return j[i].Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (j journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	for i, h := range j {
		j[i] = h.WithAttrs(attrs)
	}
	return j
}

// WithGroup implements slog.Handler.
func (j journal) WithGroup(name string) slog.Handler {
	for i, h := range j {
		j[i] = h.WithGroup(name)
	}
	return j
}
