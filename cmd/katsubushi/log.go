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
