package leader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestRunner plays a script with Runners over slow boards, see stage.
func TestRunner(t *testing.T) {
	script.Run(t, "testdata/runner.txt", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{t: t, board: newBoard(), all: map[string]*rig{}, began: time.Now()}
			calls := s.calls()
			play(func(words []string) string { return calls.Do(t, words) })
		})
	})
}

// A stage is a board and the daemons over it.
type stage struct {
	t     *testing.T
	board *board
	all   map[string]*rig
	began time.Time
}

// A rig is a Runner, which is its own slow Board.
type rig struct {
	*Runner
	*stage
	stop func() error // ends Run

	mu                    sync.Mutex
	holds                 map[int]Term
	changes, shown        int           // how often View was another one, and when it was shown last
	delay, begins, ending time.Duration // of a Commit, Begin and End
	log                   bytes.Buffer
}

// Commit implements Board. It is carried out late.
func (r *rig) Commit(ctx context.Context, c Change) (bool, State, error) {
	r.takes(&r.delay)
	return r.board.Commit(context.WithoutCancel(ctx), c)
}

// Watch implements Board.
func (r *rig) Watch(ctx context.Context, changed func(map[int]Leader)) error {
	return r.board.Watch(ctx, changed)
}

func (r *rig) takes(d *time.Duration) {
	r.mu.Lock()
	wait := *d
	r.mu.Unlock()
	time.Sleep(wait)
}

func (s *stage) start(id string, delay time.Duration) {
	r := &rig{stage: s, delay: delay, holds: map[int]Term{}}
	s.all[id] = r
	r.Runner = NewRunner(Config{
		Me: Node{ID: id, Redis: id + ":1"}, Board: r, Clock: func() int64 { return int64(time.Since(s.began)) + 1 },
		Log: slog.New(slog.NewTextHandler(&r.log, nil)), Changed: func(*View) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes++
		},
		Begin: func(term Term) {
			r.takes(&r.begins)
			r.mu.Lock()
			defer r.mu.Unlock()
			if old, ok := r.holds[term.Group]; ok {
				s.t.Errorf("%+v begins, and %+v has not ended", term, old)
			}
			r.holds[term.Group] = term
		},
		End: func(term Term) {
			if until := r.Until(term.Group); until != 0 {
				s.t.Errorf("%+v ends, and it may answer until %d", term, until)
			}
			r.takes(&r.ending)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.holds[term.Group] != term {
				s.t.Errorf("%+v ends, which is not %+v", term, r.holds[term.Group])
			}
			delete(r.holds, term.Group)
		},
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() { r.stop() })
}

func (s *stage) calls() script.Calls {
	return script.Calls{
		"rigs": s.all,
		// start a [2ms]: another daemon, whose board takes so long at first
		"start": func(id string, delay ...time.Duration) { s.start(id, append(delay, 2*time.Millisecond)[0]) },
		"sleep": func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		},
		// a takes 2ms 1s 3s: how long its board takes to answer, and its Begin and End
		"takes": func(r *rig, board, begin, end time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.delay, r.begins, r.ending = board, begin, end
		},
		// a demote 5 [1s]: and how long it waits; -1 stands for all
		"demote": func(r *rig, group int, within ...time.Duration) string {
			ctx, cancel := context.WithTimeout(s.t.Context(), append(within, time.Hour)[0])
			defer cancel()
			return after(func() error { return r.Demote(ctx, group) })
		},
		"stop": func(r *rig) string { return after(func() error { return r.Stop(s.t.Context()) }) },
		// a ends: Run's context does, and Run returns
		"ends": func(r *rig) string { return after(r.stop) },
		// a show: what it holds, and knows of group 5; a logged: what was logged, and how often
		"show":   (*rig).show,
		"logged": func(r *rig) string { return script.Logged(r.log.String()) },
		// fails [100ms] TEXT: what each call of the board answers from now on, or so long; replaced is ErrReplaced
		"fails": func(words ...string) { s.board.fail(errors.New(strings.Join(words, " "))) },
		"fails-for": func(d time.Duration) {
			s.board.fail(errors.New("it fails"))
			time.AfterFunc(d, func() { s.board.fail(nil) })
		},
		"replaced": func() { s.board.fail(fmt.Errorf("%w: cluster 17", ErrReplaced)) },
		"works":    func() { s.board.fail(nil) },
		// says-nothing of changes
		"says-nothing": func() { s.board.deaf = true },
	}
}

// after says what came of a call, and how long it took.
func after(call func() error) string {
	began := time.Now()
	err := call()
	synctest.Wait()
	return fmt.Sprintf("%v after %v", cmp.Or(err, errors.New("done")), time.Since(began).Round(200*time.Millisecond))
}

func (r *rig) show() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.c.Clock()
	until := map[string][]int{}
	for g := range r.holds {
		left := "is over"
		if until := r.Until(g); until > now {
			left = fmt.Sprint("for ", time.Duration(until-now).Round(100*time.Millisecond))
		}
		until[left] = append(until[left], g)
	}
	n, _ := r.View().Leader(5)
	s, views := r.Stats(), "no other view"
	if r.changes > r.shown {
		views = "other views"
	}
	r.shown = r.changes
	said := append(lines("holds %s %s", until), fmt.Sprintf("5 is led by %q; %d nodes, %s; terms %d, lost %d, "+
		"handed over %d, failures %d", n.Redis, len(r.View().Nodes), views, s.Terms, s.Lost, s.Handed, s.Failures))
	if err := r.Replaced(); err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, "\n")
}
