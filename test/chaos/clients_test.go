//go:build chaos && linux

package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	clientsEach = 2
	keys        = 100                  // ids asked for at a time
	pace        = 2 * time.Millisecond // between requests: the faults shall have some processor too
	gapFrom     = 200 * time.Millisecond
)

// ofLibrary comes before the reason, if the program is the library.
const ofLibrary = "katsubushi: context deadline exceeded: not ready: "

// noAnswer is the reason of a gap in which clients were told none.
const noAnswer = "no answer: killed, frozen or starting"

// A sight is what clients saw of one daemon.
type sight struct {
	mu            sync.Mutex
	ids, refusals int
	last, heard   time.Time       // when ids came, and when anything came
	without       gaps            // between ids
	why           map[string]gaps // what was heard in them
	stretch       time.Duration   // of the reason that was heard last
	told          string          // that reason, or empty: ids came last
	resumed       time.Time       // when the last gap ended
}

// gaps are stretches of time.
type gaps struct {
	times          int
	total, longest time.Duration
}

// got notes that ids came.
func (s *sight) got(ids int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close(time.Now())
	s.ids += ids
}

// was notes a refusal: what it says, without the figures.
func (s *sight) was(refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals++
	for _, known := range []string{"lease expired", "clock", "no worker id yet"} {
		if strings.HasPrefix(strings.TrimPrefix(refused, ofLibrary), known) {
			refused = known
		}
	}
	s.spend(time.Now(), refused)
}

// close ends the gap at a time. s.mu is held.
func (s *sight) close(now time.Time) {
	s.spend(now, "")
	if gap := now.Sub(s.last); gap >= gapFrom {
		s.without = s.without.and(gap, gap)
		s.without.times++
		s.resumed = now
	}
	s.last = now
}

// spend says why no ids came since something was heard. s.mu is held.
func (s *sight) spend(now time.Time, told string) {
	passed := now.Sub(s.heard)
	s.heard = now
	if passed >= gapFrom {
		s.add(noAnswer, passed)
	} else if told != "" {
		s.add(told, passed)
	}
	if told == "" {
		s.told = ""
	}
}

func (s *sight) add(why string, passed time.Duration) {
	if s.why == nil {
		s.why = map[string]gaps{}
	}
	g := s.why[why]
	if s.told != why {
		s.told, s.stretch = why, 0
		g.times++
	}
	s.stretch += passed
	s.why[why] = g.and(passed, s.stretch)
}

func (g gaps) and(passed, stretch time.Duration) gaps {
	return gaps{g.times, g.total + passed, max(g.longest, stretch)}
}

// servesSince says whether ids came after a time, and when the last gap before them ended.
func (s *sight) servesSince(t time.Time) (resumed time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed, s.last.After(t)
}

// A client asks one daemon for ids until done is closed. It waits for an answer as long as the
// connection lasts, since what a frozen daemon says when it wakes up is what matters most. Every
// other connection to this tree's version speaks the Redis protocol.
func (w *world) client(d *daemon) {
	redis := false
	for {
		select {
		case <-w.done:
			return
		case <-time.After(pace):
		}
		at := d.at.Load()
		if at == nil {
			continue
		}
		conn, err := net.Dial("tcp", at.address)
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
		speak := memcached
		if redis = !redis; redis && at.current {
			speak = resp
		}
		w.converse(d, at.name, conn, speak)
		close(gone)
		conn.Close()
	}
}

func (w *world) converse(d *daemon, process string, conn net.Conn, speak dialect) {
	request := []byte(speak.request)
	r := bufio.NewReaderSize(conn, 16<<10)
	var ids []uint64
	for {
		if _, err := conn.Write(request); err != nil {
			return
		}
		var err error
		ids, err = speak.answer(r, ids[:0])
		w.census.add(process, w.began, ids) // also those before the connection broke
		if len(ids) > 0 {
			d.seen.got(len(ids))
		}
		var refused refusal
		if errors.As(err, &refused) {
			d.seen.was(string(refused))
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

// A refusal is what a daemon says instead of ids.
type refusal string

func (r refusal) Error() string { return string(r) }

// A dialect is how a client asks for keys ids. What answer returns is good also with an error.
type dialect struct {
	request string
	answer  func(r *bufio.Reader, ids []uint64) ([]uint64, error)
}

var (
	memcached = dialect{"get" + strings.Repeat(" id", keys) + "\r\n", answer}
	resp      = dialect{fmt.Sprintf("*%d\r\n$4\r\nMGET\r\n", keys+1) + strings.Repeat("$2\r\nid\r\n", keys), answerRESP}
)

// answerRESP reads an answer to MGET: an array of ids, in which each one that is missing is an error.
func answerRESP(r *bufio.Reader, ids []uint64) ([]uint64, error) {
	var refused error
	for left := 1; left > 0; {
		line, err := r.ReadString('\n')
		if err != nil {
			return ids, err
		}
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "*") && len(ids) == 0 && refused == nil:
			if left, err = strconv.Atoi(text[1:]); err != nil || left > keys {
				return ids, errors.New("not an answer: " + line)
			}
		case strings.HasPrefix(line, "-TRYAGAIN ") || strings.HasPrefix(line, "-LOADING "):
			_, why, _ := strings.Cut(text, " ")
			refused, left = refusal(why), left-1
		case strings.HasPrefix(line, "$"): // its length
		default:
			id, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return ids, errors.New("not an answer: " + line)
			}
			ids, left = append(ids, id), left-1
		}
	}
	return ids, refused
}

// answer reads an answer to get.
func answer(r *bufio.Reader, ids []uint64) ([]uint64, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return ids, err
		}
		if line == "END\r\n" {
			return ids, nil
		}
		for _, no := range []string{"SERVER_ERROR ", "CLIENT_ERROR ", "ERROR"} {
			if why, ok := strings.CutPrefix(line, no); ok {
				return ids, refusal(strings.TrimSpace(why))
			}
		}
		if !strings.HasPrefix(line, "VALUE ") {
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
