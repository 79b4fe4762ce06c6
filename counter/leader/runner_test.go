package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A rig is a Runner over a slow board.
type rig struct {
	*Runner
	t     *testing.T
	board *slowBoard
	stop  func() error // ends Run

	mu      sync.Mutex
	story   []string
	holds   map[int]Term
	changes int
	begins  time.Duration // how long Begin takes,
	ending  time.Duration // and End
	log     bytes.Buffer
}

// A slowBoard takes a while to answer, and longer if it is told to.
type slowBoard struct {
	*board
	mu    sync.Mutex
	delay time.Duration
}

func (s *slowBoard) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *slowBoard) Commit(ctx context.Context, c Change) (bool, State, error) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	return s.board.Commit(context.WithoutCancel(ctx), c) // it is carried out late
}

func start(t *testing.T, b *board, id string) *rig {
	r := &rig{t: t, board: &slowBoard{board: b, delay: 2 * time.Millisecond}, holds: map[int]Term{}}
	began := time.Now()
	r.Runner = NewRunner(Config{
		Me: Node{ID: id, Redis: id + ":11212"}, Board: r.board, Clock: func() int64 { return int64(time.Since(began)) + 1 },
		Log: slog.New(slog.NewTextHandler(&r.log, nil)), Begin: r.begin, End: r.end, Changed: func(*View) {
			r.mu.Lock()
			r.changes++
			r.mu.Unlock()
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) begin(term Term) {
	r.mu.Lock()
	begins := r.begins
	r.mu.Unlock()
	time.Sleep(begins)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.holds[term.Group]; ok {
		r.t.Errorf("%+v begins, and %+v has not ended", term, old)
	}
	r.holds[term.Group] = term
	r.story = append(r.story, fmt.Sprintf("begin %d/%d", term.Group, term.Number))
}

func (r *rig) end(term Term) {
	if until := r.Until(term.Group); until != 0 {
		r.t.Errorf("%+v ends, and it may answer until %d", term, until)
	}
	r.mu.Lock()
	ending := r.ending
	r.mu.Unlock()
	time.Sleep(ending)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds[term.Group] != term {
		r.t.Errorf("%+v ends, which is not %+v", term, r.holds[term.Group])
	}
	delete(r.holds, term.Group)
	r.story = append(r.story, fmt.Sprintf("end %d/%d", term.Group, term.Number))
}

func (r *rig) held() int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holds)
}

func (r *rig) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.story[len(r.story)-1]
}

func (r *rig) want(what string, got, want any) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A group goes from one daemon to the other as soon as its blocks are given back, and the others are served
// meanwhile.
func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		a.want("a view before", a.View().At, int64(0))
		time.Sleep(3 * time.Second)
		b := start(t, board, "b")
		time.Sleep(3 * time.Second)
		a.want("groups", a.held(), Groups)
		a.want("not its own", b.Demote(t.Context(), 5), ErrNotLeader)
		a.want("not its own", b.Demote(t.Context(), All), ErrNotLeader)
		changes := b.changes
		time.Sleep(10 * time.Second)
		b.want("views that say the same", b.changes, changes)

		a.ending = 3 * time.Second
		began := time.Now()
		asked, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.want("too short", a.Demote(asked, 5), context.DeadlineExceeded)
		a.want("until", a.Until(5), int64(0))
		time.Sleep(1900 * time.Millisecond)
		leader, _ := b.View().Leader(5)
		b.want("the leader still", leader.ID, "a")
		b.want("until of others", a.Until(4) > a.c.Clock(), true)
		time.Sleep(120 * time.Millisecond)
		synctest.Wait()
		b.want("b has it", b.last(), "begin 5/2")
		b.want("until", b.Until(5) > b.c.Clock(), true)
		leader, _ = a.View().Leader(5)
		b.want("the leader", leader, Node{"b", "b:11212"})
		if took := time.Since(began); took > 3100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		b.want("views", b.changes > changes, true)

		a.ending = 0
		if err := a.Demote(t.Context(), All); err != nil {
			t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		a.want("groups", b.held(), Groups)
		a.want("groups", a.held(), 0)
		stats := a.Stats()
		a.want("terms", stats.Terms, uint64(Groups))
		a.want("handed over", stats.Handed, uint64(Groups))
		a.want("lost", stats.Lost, uint64(0))
	})
}

// Without a watch a daemon still learns within a second.
func TestWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		board.deaf = true
		a := start(t, board, "a")
		time.Sleep(3 * time.Second)
		b := start(t, board, "b")
		time.Sleep(3 * time.Second)
		if err := a.Demote(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		b.want("groups", b.held(), 1)
	})
}

// Answers take too long: they are dropped when they come, and the daemon answers no requests once its time is
// over. It goes on in the same terms.
func TestAnswersThatComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, newBoard(), "a")
		time.Sleep(3500 * time.Millisecond)
		until := a.Until(0)
		a.board.wait(1500 * time.Millisecond)
		time.Sleep(20 * time.Second)
		if now := a.Until(0); now > until+int64(2*time.Second) || now > a.c.Clock() {
			t.Errorf("until %v, and it was %v", time.Duration(now), time.Duration(until))
		}
		failures := a.Stats().Failures
		if failures < 10 {
			t.Errorf("%d failures", failures)
		}
		a.board.wait(2 * time.Millisecond)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		a.want("it answers", a.Until(0) > a.c.Clock(), true)
		a.want("what happened", len(a.story), Groups)
		for _, text := range []string{"does not answer", "answers again"} {
			a.want(text, strings.Count(a.log.String(), text), 1)
		}
	})
}

// A daemon that stops hands everything over, and sees what becomes of it until it ends.
func TestStopAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		time.Sleep(3 * time.Second)
		b := start(t, board, "b")
		time.Sleep(3 * time.Second)
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.want("groups", a.held(), 0)
		time.Sleep(100 * time.Millisecond)
		a.want("groups", b.held(), Groups)
		leader, _ := a.View().Leader(3)
		a.want("the leader", leader.ID, "b")
		a.want("keys", len(board.nodes), 1)
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		b.ending = time.Second
		if err := b.stop(); err != nil { // without Stop, and alone
			t.Error(err)
		}
		a.want("groups", len(b.holds), 0)
		a.want("keys", len(board.nodes), 0)
		a.want("nobody", board.leaders[3].ID, "")
	})
}

func TestEndWithoutABoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		time.Sleep(3 * time.Second)
		board.fail(errors.New("no etcd"))
		began := time.Now()
		if err := a.stop(); err == nil || time.Since(began) != stopTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		a.want("groups", a.held(), 0)
	})
}

// A Term ends while its Begin is under way: End comes afterwards.
func TestEndDuringBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		a.begins = 4 * time.Second
		start(t, board, "b")
		time.Sleep(3 * time.Second)
		a.Demote(t.Context(), All)
		time.Sleep(10 * time.Second)
		a.want("groups", a.held(), 0)
		a.want("what happened", len(a.story), Groups)
	})
}

// A daemon ends while the write of its first node key is under way.
func TestEndAtTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		a.board.wait(300 * time.Millisecond)
		time.Sleep(time.Millisecond)
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		a.want("keys", len(board.nodes), 0)
	})
}

// Another store answers than the one that the daemon began with. It says so once, and until the first one is back.
func TestAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		a := start(t, board, "a")
		time.Sleep(3 * time.Second)
		down := func(err error) {
			board.fail(err)
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		replaced := fmt.Errorf("%w: cluster 17", ErrReplaced)
		for _, err := range []error{errors.New("no etcd"), replaced, errors.New("no etcd"), replaced} {
			down(err)
		}
		if err := a.Replaced(); !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), "cluster 17") {
			t.Error(err)
		}
		a.want("it is said", strings.Count(a.log.String(), "level=ERROR"), 1)
		down(nil)
		a.want("afterwards", a.Replaced(), nil)
		a.want("what happened", len(a.story), Groups)
	})
}

// A daemon that leads nothing ends while the store fails for a moment. It does not end before its key is deleted:
// for some seconds others would take it for an heir.
func TestEndWithoutGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := newBoard()
		start(t, board, "a")
		time.Sleep(3 * time.Second)
		b := start(t, board, "b")
		time.Sleep(3 * time.Second)
		board.fail(errors.New("no etcd"))
		time.AfterFunc(100*time.Millisecond, func() { board.fail(nil) })
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		b.want("its key", board.nodes["b"], NodeKey{})
		b.want("keys", len(board.nodes), 1)
	})
}
