package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/logqueue"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// The levels above slog's, which kayac/go-katsubushi has. Why the daemon ends is fatal, and no
// -log-level hides it.
const (
	levelPanic = slog.LevelError + 4
	levelFatal = slog.LevelError + 8
)

// How long the end of the process waits for its last lines to be written.
const (
	flushLimit = time.Second
	hurryLimit = 50 * time.Millisecond // after a second signal
)

// An ending is the end of a process that has a log: in order, or at once, which a second signal may
// ask for while the first is under way.
type ending struct {
	queue *logqueue.Writer
	way   chan struct{} // has room for one: the way in which the process ends
}

// inOrder waits for the log. If the process is to end at once meanwhile, it does not return.
func (e *ending) inOrder() {
	e.queue.Close(flushLimit)
	e.way <- struct{}{}
}

// atOnce ends the process by exit, as a failure. If it has ended in order already, it does not return.
func (e *ending) atOnce(exit func(code int)) {
	e.way <- struct{}{}
	e.queue.Close(hurryLimit)
	exit(exitFailure)
}

// openLog opens the log of a process that runs for long: nobody who logs waits for it, and no
// reader who goes away ends the process. What libraries log goes there too. Whoever ends the
// process closes the queue first.
func openLog(stderr io.Writer, o options) (*slog.Logger, *logqueue.Writer) {
	if !signal.Ignored(syscall.SIGPIPE) {
		// Go ends a process that writes to a broken stderr, unless somebody is notified. To ignore
		// the signal would be inherited by other programs.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	queue := logqueue.New(stderr, func(n uint64) []byte {
		var line bytes.Buffer
		o.logLevel = slog.LevelInfo
		logger(&line, o).Warn("log lines were lost: the log could not be written", "lines", n)
		return line.Bytes()
	})
	log := logger(queue, o)
	slog.SetDefault(log) // and so the log of net/http
	slog.SetLogLoggerLevel(slog.LevelWarn)
	stores.LogTo(log)
	return log, queue
}

// logger logs to w, and waits for it.
func logger(w io.Writer, o options) *slog.Logger {
	ho := &slog.HandlerOptions{Level: o.logLevel, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.LevelKey && a.Value.Any() == levelFatal {
			a.Value = slog.StringValue("FATAL")
		}
		return a
	}}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, ho))
	}
	return slog.New(slog.NewTextHandler(w, ho))
}
