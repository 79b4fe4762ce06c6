package static

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A sharedMark is one mark for all worker ids of a Store, in a file of its own, so that one write lets all windows go
// on. It stands beside the marks of the workers: windows end at the lower one of the two. Those of the workers are
// written seldom, and lie far ahead. The next run of a worker goes by the lower one, too.
//
// Its file is called shared-SERIES.mark. A run goes by it if its nonce is SERIES, a point, and more; SERIES is no other
// Store's. So the file needs no lock: nobody else writes it, and who reads it knows whose it is. One that is missing
// costs time, since the next run goes by its own mark. The format is that of state files (see durable.Format):
//
//	katsubushi shared 1
//	generation 42
//	series K5XQ3ZJ7T2M4WB6LHD3YNC5EFA
//	mark 1732060802000
//	crc32c 1a2b3c4d
type sharedMark struct {
	c       *Config
	series  string
	near    int64 // see worker
	reserve int64

	mu   sync.Mutex // guards what follows; not held while the disk is asked for anything
	mark mark

	// Only the goroutine whose push is under way uses these.
	copies     durable.Copies
	generation uint64
}

// Beside a shared mark, the marks of workers are moved to so many ms above its reserve when they are less than so many
// above it: far enough that no disk that stalls makes them the lower ones, and seldom.
const (
	far    = 150_000
	nearer = 30_000
)

var sharedFormat = durable.Format{Kind: "shared", Version: "1"}

func newSharedMark(c *Config, series string) *sharedMark {
	s := &sharedMark{c: c, series: series, near: Reserve(c.RunAhead, c.Tick).Milliseconds()}
	s.reserve = s.near + stall.Milliseconds()
	s.copies = durable.Copies{Disk: c.Disk, Path: sharedPath(c.Dir, s.series), Log: c.Log,
		Locked:       func() bool { return true },
		MayOverwrite: func([]byte) error { return nil }} // a file that is lost costs no more than time
	return s
}

func sharedPath(dir, series string) string { return filepath.Join(dir, "shared-"+series+".mark") }

func (s *sharedMark) log() *slog.Logger { return s.c.Log.With("file", s.copies.Path) }

// reach records the mark, if that is necessary, so that a window may go on from now, and reports whether it may begin
// above a position. If not, that is too high, or the disk has not written the mark.
func (s *sharedMark) reach(now, above int64) bool {
	s.mu.Lock()
	for p := s.mark.pushing; !p.isOver(); p = s.mark.pushing {
		s.mu.Unlock()
		<-p.done
		s.mu.Lock()
	}
	if s.mark.highWater < now+s.near {
		p, before := s.mark.begin(now+s.reserve, now)
		s.mu.Unlock()
		s.write(p, before)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	return s.mark.highWater >= max(now+s.near, above)
}

// push begins to move the mark ahead if a tenth of the reserve is used up and check has nothing against it.
func (s *sharedMark) push(now int64, check func(Clocks) error) (start func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mark.pushing.isOver() {
		s.mark.stalled(now, s.log)
		return nil, nil
	}
	if ahead := s.mark.highWater - now; ahead >= s.near && ahead > s.reserve-s.reserve/10 {
		return nil, nil
	}
	if err := check(s.c.Clocks()); err != nil {
		return nil, err
	}
	p, before := s.mark.begin(now+s.reserve, now)
	return func() { s.write(p, before) }, nil
}

// write carries a push out.
func (s *sharedMark) write(p, before *push) {
	s.generation++
	data := sharedFormat.Append(nil, sharedBody(s.generation, s.series, p.highWater))
	f := s.copies.File()
	var err error
	if f != nil && !f.Is(s.copies.Path) { // it was deleted: it is made anew
		err = s.copies.Close()
		f = nil
	}
	if f == nil {
		err = errors.Join(err, s.copies.Create(data))
	} else {
		err = s.copies.Update(data)
	}
	if err == nil && before == nil {
		s.tidy(p.highWater - s.reserve)
	}
	s.mu.Lock()
	s.mark.pushed(p, before, err, s.c, s.log())
	s.mu.Unlock()
	close(p.done)
}

// state returns the mark that is recorded for certain, and the write that is under way or was the last.
func (s *sharedMark) state() (highWater int64, pushing *push) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.highWater, s.mark.pushing
}

// close closes the file once no write is under way. The error is ctx's.
func (s *sharedMark) close(ctx context.Context) error {
	if _, p := s.state(); p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return fmt.Errorf("static: the disk of %s does not answer: %w", s.copies.Path, ctx.Err())
		}
	}
	return s.copies.Close()
}

// tidy removes the files of Stores that are gone. They make no difference once even the marks beside them have passed.
func (s *sharedMark) tidy(now int64) {
	names, err := s.c.Disk.Names(s.c.Dir)
	if err != nil {
		return
	}
	for _, name := range names {
		series, ok := seriesOf(name)
		if !ok {
			continue
		}
		if mark, err := readShared(s.c.Disk, s.c.Dir, series); err == nil && mark+far+s.reserve < now {
			_ = s.c.Disk.Remove(sharedPath(s.c.Dir, series))
		}
	}
}

func seriesOf(name string) (series string, ok bool) {
	series, ok = strings.CutPrefix(name, "shared-")
	if ok {
		series, ok = strings.CutSuffix(series, ".mark")
	}
	return series, ok
}

// reached returns up to where the run that wrote r can have issued ids: its mark, or the lower one that it shared.
// After a clean stop the mark is exact.
func reached(d Disk, dir string, r *record) int64 {
	series, _, shares := strings.Cut(r.Run.Nonce, ".")
	if !shares || r.Run.Stopped {
		return r.HighWater
	}
	mark, err := readShared(d, dir, series)
	if err != nil {
		return r.HighWater
	}
	return min(r.HighWater, mark)
}

func readShared(d Disk, dir, series string) (int64, error) {
	b, err := durable.Read(d, sharedPath(dir, series))
	if err != nil {
		return 0, err
	}
	mark, _, err := recoverShared(b, series)
	return mark, err
}

func sharedBody(generation uint64, series string, mark int64) string {
	return fmt.Sprintf("generation %d\nseries %s\nmark %d\n", generation, series, mark)
}

// recoverShared finds the mark of a whole file, see durable.Recover.
func recoverShared(b []byte, series string) (mark int64, damaged []string, err error) {
	return durable.Recover(b, func(b []byte) (mark int64, generation uint64, err error) {
		text, err := sharedFormat.Body(b)
		if err != nil {
			return 0, 0, err
		}
		_, first, _ := strings.Cut(text, "generation ")
		first, _, _ = strings.Cut(first, "\n")
		_, last, _ := strings.Cut(text, "mark ")
		generation, _ = strconv.ParseUint(first, 10, 64) // what is no number is not as we write it either
		mark, _ = strconv.ParseInt(strings.TrimSuffix(last, "\n"), 10, 64)
		return mark, generation, sharedFormat.Same(b, sharedBody(generation, series, mark))
	})
}
