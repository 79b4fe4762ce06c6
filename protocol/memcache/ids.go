package memcache

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// ids is this server's own command. It answers many ids as a few runs, so that a client which asks for
// thousands reads some dozens of bytes in all, not 37 for each id.

// maxIDs is the most ids that one ids command gets.
const maxIDs = 10_000

// enoughIDs is how many ids one Feed issues before an ids line ends it. Their
// replies are so short that ReplyChunk would be millions of ids, and seconds in which a source that is
// out of ids sleeps until the next tick, again and again, while other connections wait.
const enoughIDs = maxIDs

var defaultKey = []byte("id") // stands for the default kind of id, always

// runRoom is the most bytes that an IDS line takes.
const runRoom = len("IDS 18446744073709551615 9223372036854775807 10000\r\n")

// ids answers an ids line. left is how many bytes at the end of the line it leaves to moreRuns. After
// id.ErrWait it is 0 if that is the whole line.
func (s *Session) ids(t *turn, rest []byte) (left int, err error) {
	t.Add(protocol.CmdIDs, 1)
	f := split(rest)
	n, ok := parseUint(f.at(0), 32)
	if !ok || n == 0 || n > maxIDs || f.n > 2 || len(f.at(1)) > protocol.MaxKey {
		t.blame(errFormat)
		return 0, nil
	}
	missing, err := s.runs(t, f.at(1), int(n), n > 1)
	if missing == int(n) {
		t.Add(protocol.CmdIDs, -1)
		return 0, err
	}
	if missing > 0 {
		s.state, s.left = runs, uint32(missing)
		left = len(rest)
	}
	return left, err
}

// moreRuns continues with an ids line, of which its words after the first are left. It consumes them
// once all ids are issued.
func (s *Session) moreRuns(t *turn, in []byte) (int, error) {
	end := bytes.IndexByte(in, '\n') + 1
	if end == 0 {
		return 0, nil
	}
	f := split(trim(in[:end]))
	missing, err := s.runs(t, f.at(1), int(s.left), true)
	if missing > 0 {
		s.left = uint32(missing)
		return 0, err
	}
	s.state = line
	return end, err
}

// runs issues n ids for a key; none means id. It ends the reply once it has issued them or is refused.
// It stops after id.ErrWait and when its reply has about protocol.ReplyChunk bytes. Then missing is how
// many ids are still to be issued.
func (s *Session) runs(t *turn, key []byte, n int, bulk bool) (missing int, err error) {
	if len(key) == 0 {
		key = defaultKey
	}
	source := s.config.Handler.Source(key)
	if _, ok := source.(id.Texter); ok {
		t.blame(errNoNumbers)
		return 0, nil
	}
	for begin := len(t.Out); n > 0 && len(t.Out)-begin <= protocol.ReplyChunk-runRoom; {
		var run id.Run
		if bulk {
			run, err = t.Mint(source, n, true)
		} else {
			run, err = t.Issue(s.config.Handler, key)
		}
		switch {
		case err == id.ErrWait:
			return n, err
		case err != nil:
			if bulk { // Issue has counted
				t.Add(protocol.Refused, n)
			}
			t.refuse(err)
			return 0, nil
		case bulk:
			t.Add(protocol.IDs, run.N)
		}
		t.sayRun(run)
		n -= run.N
	}
	if n > 0 {
		return n, nil
	}
	t.Say("END\r\n")
	t.Enough = t.Counted(protocol.IDs) >= enoughIDs
	return 0, nil
}

// sayRun appends an IDS line.
func (t *turn) sayRun(run id.Run) {
	out := append(slices.Grow(t.Out, runRoom), "IDS "...)
	for i, v := range [...]uint64{run.First, run.Stride, uint64(run.N)} {
		if i > 0 {
			out = append(out, ' ')
		}
		out = strconv.AppendUint(out, v, 10)
	}
	t.Out = append(out, "\r\n"...)
}
