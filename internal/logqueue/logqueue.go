// Package logqueue writes a log so that nobody who logs waits for it.
//
// The guarantee: Write returns at once, whatever becomes of the log: a pipe that nobody reads, a reader that went away, a disk that
// stalls. What cannot be written is dropped and counted, and the log says where and how many lines as soon as it can be written again.
// What is written is written in order, each line by a write of its own, as others may share the terminal or pipe.
//
// Not promised: that a line is written by the time Write returns. Close waits for that, within bounds.
//
// # Why a goroutine
//
// O_NONBLOCK belongs to the open file and not to the descriptor: set here, it would change the terminal or pipe of every other process that
// has it too. And it does nothing for a regular file on a disk that stalls. So one goroutine makes the writes that may block.
package logqueue

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Limit is how many bytes of lines wait at most, as many as in a pipe, behind those that are being written, which may be as many.
const Limit = 64 << 10

// A Writer is the queue before a log. Its methods may be called from any goroutine.
type Writer struct {
	out   io.Writer
	lost  func(n uint64) []byte
	wake  chan struct{} // something is queued, dropped or closed
	done  chan struct{} // closed when the goroutine has ended
	total atomic.Uint64

	mu      sync.Mutex
	queue   []byte // whole lines
	dropped uint64 // lines that found no room since the queue was last taken; more are dropped until then, so that all lie in one place
	closed  bool

	// What follows is the goroutine's.
	untold uint64 // lines that were lost and of which the log does not say so yet
	torn   bool   // the last line was cut short
}

// New starts a queue before out. lost makes the line that says how many lines were lost; it is called by the queue's goroutine. The caller
// ends the goroutine by Close.
func New(out io.Writer, lost func(n uint64) []byte) *Writer {
	w := &Writer{out: out, lost: lost, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write queues whole lines, of which it keeps a copy. It never waits and never fails.
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

// Dropped is how many lines were lost so far.
func (w *Writer) Dropped() uint64 { return w.total.Load() }

// Close waits until all that is queued has been written, or given up, but no longer than limit, and reports whether it has. Lines that come
// later are dropped. It may be called more than once.
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

// run writes what is queued until the queue is closed and empty.
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

// take takes what is queued, and leaves spare in its place. If nothing is, spare stays the caller's.
func (w *Writer) take(spare []byte) (lines []byte, dropped uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		lines, w.queue = w.queue, spare
	}
	dropped, w.dropped = w.dropped, 0
	return lines, dropped, w.closed
}

// write writes a line, or notes that it is lost.
func (w *Writer) write(line []byte) {
	if !w.tell() || !w.try(line) {
		w.untold++
		w.total.Add(1)
	}
}

// tell says how many lines were lost, if any were, and reports whether the log knows of all.
func (w *Writer) tell() bool {
	if w.untold > 0 && w.try(w.lost(w.untold)) {
		w.untold = 0
	}
	return w.untold == 0
}

// try writes a line and reports whether it is written. What a failure left of a line gets an end first.
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
