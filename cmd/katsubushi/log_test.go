package main

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/logqueue"
)

// fullLog takes nothing before it is closed.
type fullLog chan struct{}

func (l fullLog) Write(b []byte) (int, error) { <-l; return len(b), nil }

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
			go handleSignals(signals, func() {}, log, func() { close(stop) }, func() { last.atOnce(func(c int) { code = c }) })
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
