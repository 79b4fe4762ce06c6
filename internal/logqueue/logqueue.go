// Package logqueue writes a log without making its callers wait.
//
// The guarantee: Write returns at once, whatever happens to the log: a pipe that nobody reads, a
// reader that has gone, a disk that stalls. Lines that cannot be written are dropped and counted.
// As soon as the log can be written again, it says where lines are missing and how many. Lines are
// written in order, each with its own write, because other processes may share the terminal or
// pipe.
//
// Not promised: that a line is written when Write returns. Close waits for that, up to a limit.
//
// # Why a goroutine
//
// O_NONBLOCK belongs to the open file, not to the descriptor. Setting it here would change the
// terminal or pipe for every other process that shares it, and it has no effect on a regular file
// on a stalled disk. So one goroutine makes the writes that may block.
package logqueue

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Limit is how many bytes of lines may wait, as many as in a pipe. As many again may be on their
// way to the log.
const Limit = 64 << 10

// A Writer is a queue in front of a log. Any goroutine may call its methods.
type Writer struct {
	out   io.Writer
	lost  func(n uint64) []byte
	wake  chan struct{} // something was queued or dropped, or the queue was closed
	done  chan struct{} // closed when the goroutine has ended
	total atomic.Uint64

	mu    sync.Mutex
	queue []byte // whole lines
	// dropped counts lines dropped since the queue was last taken. Until then all later lines are
	// dropped too, so that the gap is in one place.
	dropped uint64
	closed  bool

	// Only the goroutine uses these.
	untold uint64 // lost lines that the log does not mention yet
	torn   bool   // the last line was cut short
}

// New starts a queue in front of out. The queue's goroutine calls lost to make the line that says
// how many lines were lost. The caller must end the goroutine with Close.
func New(out io.Writer, lost func(n uint64) []byte) *Writer {
	w := &Writer{out: out, lost: lost, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write queues a copy of whole lines. It never waits and never fails.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	if w.closed || w.dropped > 0 || len(w.queue)+len(lines) > Limit {
		n := uint64(bytes.Count(lines, newline))
		w.dropped += n
		w.total.Add(n)
	} else {
		w.queue = append(w.queue, lines...)
	}
	w.mu.Unlock()
	w.poke()
	return len(lines), nil
}

var newline = []byte("\n")

// Dropped returns how many lines were lost so far.
func (w *Writer) Dropped() uint64 { return w.total.Load() }

// Close waits until everything queued has been written or given up, but no longer than limit, and
// reports whether it has. Later lines are dropped. It may be called more than once.
func (w *Writer) Close(limit time.Duration) bool {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.poke()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-w.done:
		return true
	case <-late.C:
		return false
	}
}

func (w *Writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes the queue's lines until the queue is closed and empty.
func (w *Writer) run() {
	defer close(w.done)
	var spare []byte
	for range w.wake {
		for {
			lines, dropped, closed := w.take(spare)
			if len(lines) == 0 && dropped == 0 {
				if closed {
					return
				}
				break
			}
			for line := range bytes.Lines(lines) {
				w.write(line)
			}
			if w.untold += dropped; dropped > 0 {
				w.tell()
			}
			if lines != nil {
				spare = lines[:0]
			}
		}
	}
}

// take takes the queued lines and puts spare in their place. If there are none, the caller keeps
// spare.
func (w *Writer) take(spare []byte) (lines []byte, dropped uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		lines, w.queue = w.queue, spare
	}
	dropped, w.dropped = w.dropped, 0
	return lines, dropped, w.closed
}

// write writes a line, or records that it is lost.
func (w *Writer) write(line []byte) {
	if !w.tell() || !w.try(line) {
		w.untold++
		w.total.Add(1)
	}
}

// tell writes how many lines were lost, if any, and reports whether the log mentions them all.
func (w *Writer) tell() bool {
	if w.untold > 0 && w.try(w.lost(w.untold)) {
		w.untold = 0
	}
	return w.untold == 0
}

// try writes a line and reports whether it is written. If a failed write left part of a line, it
// ends that line first.
func (w *Writer) try(line []byte) bool {
	if w.torn {
		if _, err := w.out.Write(newline); err != nil {
			return false
		}
		w.torn = false
	}
	n, err := w.out.Write(line)
	w.torn = err != nil && n > 0
	return err == nil
}
