package users

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Comparisons in a process of their own, of low priority. On a host with few processors a thread that
// compares delays an event loop by some milliseconds, and the collection of its memory all of them. A
// thread of low priority within the daemon would be worse: Go's runtime stops all threads now and then,
// and would wait for the one that gets no processor.
//
// Low priority alone is not enough: a thread that Linux wakes where one of low priority runs can wait for
// the next tick, up to 4 ms. So such a process uses one processor, and loops find the others.
//
// The daemon sends the text of a hash and a password, each behind its length in four bytes, and gets one
// byte: 1 if they match, or else 0. The process ends with its standard input.

const (
	besideIdle     = 10 * time.Second // after which the process ends: it is made again in some 20 ms
	besidePatience = 10 * time.Second // for an answer; then the daemon compares by itself
	maxBesideText  = 64 << 10         // of a hash, and of a password
)

// A beside is such a process. One goroutine at a time may use it.
type beside struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader
	wait time.Duration
	late *time.Timer // kills it
	used time.Time   // when it became idle
}

func startBeside(cmd *exec.Cmd, wait time.Duration) (*beside, error) {
	b := &beside{cmd: cmd, wait: wait}
	var err1, err2 error
	b.in, err1 = cmd.StdinPipe()
	b.out, err2 = cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.late = time.AfterFunc(wait, b.kill)
	return b, nil
}

func (b *beside) kill() { b.cmd.Process.Kill() }

// is compares; an error means that nothing is known, and that the process is of no use any more.
func (b *beside) is(h *hash, password []byte) (is bool, err error) {
	b.late.Reset(b.wait)
	defer b.late.Stop()
	ask := appendPart(appendPart(nil, []byte(h.text())), password)
	defer clear(ask)
	if _, err := b.in.Write(ask); err != nil {
		return false, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(b.out, answer[:]); err != nil {
		return false, err
	}
	return answer[0] == 1, nil
}

// close ends the process, which has nothing to lose.
func (b *beside) close() {
	b.kill()
	b.in.Close()
	b.cmd.Wait()
}

func appendPart(to, part []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// CompareBeside is what the process does that a Verifier's Beside starts. It returns when in ends. Signals
// that end the daemon do not end it: the daemon still answers for a while.
func CompareBeside(in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := lowerPriority(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	r := bufio.NewReader(in)
	part := func() ([]byte, error) {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxBesideText {
			return nil, errors.New("a text that is too long")
		}
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	for {
		text, err := part()
		if err == io.EOF {
			return nil
		}
		password, err2 := part()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		h, err := parseHash(string(text))
		if err != nil {
			return err
		}
		answer := []byte{0}
		if h.is(password) {
			answer[0] = 1
		}
		clear(password)
		if _, err := out.Write(answer); err != nil {
			return err
		}
		runtime.GC() // what a comparison took is not kept
	}
}
