package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/logqueue"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
)

// fullLog takes nothing before it is closed.
type fullLog chan struct{}

func (l fullLog) Write(b []byte) (int, error) {
	<-l
	return len(b), nil
}

// TestASecondSignalDoesNotWaitForTheLog: neither when the daemon stops nor when it has stopped and
// waits for its last lines.
func TestASecondSignalDoesNotWaitForTheLog(t *testing.T) {
	for _, second := range []time.Duration{0, flushLimit / 2, flushLimit - 1, flushLimit - hurryLimit + 1} {
		synctest.Test(t, func(t *testing.T) {
			full := make(fullLog)
			defer close(full)
			queue := logqueue.New(full, func(uint64) []byte { return nil })
			log := slog.New(slog.NewTextHandler(queue, nil))
			last := ending{queue, make(chan struct{}, 1)}
			signals, stop := make(chan os.Signal), make(chan struct{})
			defer close(signals)
			code, stopped := -1, false
			go handleSignals(signals, log, func() { close(stop) }, func() { last.atOnce(func(c int) { code = c }) })
			signals <- syscall.SIGTERM
			<-stop
			go func() {
				last.inOrder()
				stopped = true
			}()
			time.Sleep(second)
			signals <- syscall.SIGTERM
			time.Sleep(hurryLimit)
			synctest.Wait()
			if code != exitFailure || stopped {
				t.Errorf("a second signal after %v: exit code %d; stopped in order: %v", second, code, stopped)
			}
			<-last.way // of a process that would be gone
		})
	}
}

// TestTheJournalGetsPriorities: each line has its level's before it, as sd-daemon(3) says, and is for the
// rest what it is elsewhere.
func TestTheJournalGetsPriorities(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var plain, inJournal bytes.Buffer
		o := options{logLevel: slog.LevelDebug, logFormat: format}
		noTime := func(l *slog.Logger) *slog.Logger { return l.With("a", 1).WithGroup("g").With("b", 2) }
		for _, l := range []*slog.Logger{noTime(logger(&plain, o)), noTime(journalLogger(&inJournal, o))} {
			for _, level := range []slog.Level{
				slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, levelPanic, levelFatal,
			} {
				l.Log(t.Context(), level, "x\ny", "c", time.Second)
			}
		}
		without, with := strings.Split(plain.String(), "\n"), strings.Split(inJournal.String(), "\n")
		if len(without) != 7 || len(with) != 7 {
			t.Fatalf("%q, %q", without, with)
		}
		for i, priority := range []string{"<7>", "<6>", "<4>", "<3>", "<2>", "<2>", ""} {
			line, ok := strings.CutPrefix(with[i], priority)
			if !ok || withoutTime(line) != withoutTime(without[i]) {
				t.Errorf("%s: %s, want %s%s", format, with[i], priority, without[i])
			}
		}
		if o.logLevel = slog.LevelWarn; journalLogger(&inJournal, o).Enabled(t.Context(), slog.LevelInfo) {
			t.Error("-log-level does not count in the journal")
		}
	}
}

// withoutTime removes the time from a line of the log.
func withoutTime(line string) string {
	var e map[string]any
	if json.Unmarshal([]byte(line), &e) == nil {
		delete(e, "time")
		return fmt.Sprint(e)
	}
	_, rest, _ := strings.Cut(line, " ")
	return rest
}

// TestNothingReachesATerminal: what answers at a store's address can say anything, which is escaped in what
// every subcommand prints, and in the log, whose JSON stays JSON.
func TestNothingReachesATerminal(t *testing.T) {
	const hostile = "\x1b]0;x\a\x7f\u009b\u202e"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			for b := make([]byte, 1000); ; {
				if _, err := c.Read(b); err != nil {
					break
				}
				io.WriteString(c, "-ERR "+hostile+"\r\n")
			}
			c.Close()
		}
	}()
	var stdout, stderr bytes.Buffer
	url := "redis://" + ln.Addr().String() + "/0"
	code := run([]string{"lease", "list", "-redis", url}, environment(), &stdout, &stderr)
	const shown = `\u001b]0;x\u0007\u007f\u009b\u202e`
	said := stdout.String() + stderr.String()
	if code != exitFailure || !strings.Contains(said, shown) || strings.ContainsAny(said, "\x1b\a\x7f\u009b\u202e") {
		t.Errorf("exit code %d: %q, %q", code, &stdout, &stderr)
	}
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		logger(visible.Writer{To: &b}, options{logFormat: format}).Warn("a store said: "+hostile, "error", hostile)
		var line struct{ Msg, Error string }
		if strings.ContainsAny(b.String(), "\x1b\x7f\u009b\u202e") {
			t.Errorf("%q", &b)
		}
		if err := json.Unmarshal(b.Bytes(), &line); format == "json" && (err != nil || line.Error != hostile) {
			t.Errorf("%v: %q", err, &b)
		}
	}
}
