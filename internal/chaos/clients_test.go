//go:build chaos && linux

package chaos

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/generator"
	"github.com/katsubushi/katsubushi/internal/unique"
)

const (
	clientsEach = 2
	keys        = 40                   // ids asked for at a time
	pace        = 2 * time.Millisecond // between requests: the faults shall have some processor too
	gapFrom     = 200 * time.Millisecond
)

// A census takes in all ids that anybody got.
type census struct {
	mu    sync.Mutex
	ids   unique.Set
	twice []string // the story of the first few duplicates
}

func (c *census) add(d *daemon, began time.Time, ids []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if !c.ids.Add(id) && len(c.twice) < 20 {
			p := generator.Katsubushi().Decompose(id)
			c.twice = append(c.twice, strconv.FormatUint(id, 10)+" of worker id "+strconv.FormatUint(p.Worker, 10)+
				" and "+p.Time.UTC().Format("15:04:05.000")+" came again from "+d.name+" after "+time.Since(began).Round(time.Millisecond).String())
		}
	}
}

// A sight is what clients saw of one daemon.
type sight struct {
	mu                   sync.Mutex
	ids, refusals        int
	last                 time.Time // when ids came last
	refusedSince         bool      // a refusal was read since then
	refused, unreachable time.Duration
	longest              time.Duration
	resumed              time.Time // when the last gap ended
}

// got notes an answer with ids, or a refusal. A gap between ids counts as refused if a refusal was read in it, else as unreachable.
func (s *sight) got(ids int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids == 0 {
		s.refusals++
		s.refusedSince = true
		return
	}
	s.close(time.Now())
	s.ids += ids
}

// close ends the gap at a time. s.mu is held.
func (s *sight) close(now time.Time) {
	gap := now.Sub(s.last)
	if gap >= gapFrom {
		s.longest, s.resumed = max(s.longest, gap), now
		if s.refusedSince {
			s.refused += gap
		} else {
			s.unreachable += gap
		}
	}
	s.last, s.refusedSince = now, false
}

// servesSince says whether ids came after a time, and when the last gap before them ended.
func (s *sight) servesSince(t time.Time) (resumed time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed, s.last.After(t)
}

// A client asks one daemon for ids until done is closed. It waits for an answer as long as the connection lasts, since what a frozen daemon
// says when it wakes up is what matters most.
func (w *world) client(d *daemon) {
	for {
		select {
		case <-w.done:
			return
		case <-time.After(pace):
		}
		addr := d.addr.Load()
		if addr == nil {
			continue
		}
		conn, err := net.Dial("tcp", *addr)
		if err != nil {
			continue
		}
		gone := make(chan struct{})
		go func() {
			select {
			case <-w.done:
				conn.Close()
			case <-gone:
			}
		}()
		w.converse(d, conn)
		close(gone)
		conn.Close()
	}
}

func (w *world) converse(d *daemon, conn net.Conn) {
	request := []byte("get" + strings.Repeat(" id", keys) + "\r\n")
	r := bufio.NewReaderSize(conn, 16<<10)
	var ids []uint64
	for {
		if _, err := conn.Write(request); err != nil {
			return
		}
		var err error
		ids, err = answer(r, ids[:0])
		w.census.add(d, w.began, ids) // also those before the connection broke
		if len(ids) > 0 {
			d.seen.got(len(ids))
		}
		if errors.Is(err, errRefused) {
			d.seen.got(0)
		} else if err != nil {
			return
		}
		select {
		case <-w.done:
			return
		case <-time.After(pace):
		}
	}
}

var errRefused = errors.New("refused")

// answer reads one answer. What it returns is good also with an error.
func answer(r *bufio.Reader, ids []uint64) ([]uint64, error) {
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return ids, err
		case line == "END\r\n":
			return ids, nil
		case strings.HasPrefix(line, "SERVER_ERROR "):
			return ids, errRefused
		case !strings.HasPrefix(line, "VALUE id "):
			return ids, errors.New("not an answer: " + line)
		}
		if line, err = r.ReadString('\n'); err != nil {
			return ids, err
		}
		id, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
}
