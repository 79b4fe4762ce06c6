package zktest

import (
	"os"
	"sync"
	"testing"
)

// A place is servers that the tests of a package share, so that few have to be started.
type place struct {
	mu   sync.Mutex // of whoever uses it alone, and while it is started
	all  []*instance
	dir  string
	kept []func() // what ends with the process: names that nobody refers to would be closed
}

var common, alone, three place

// Main runs the tests of a package, and ends what they share. For TestMain.
func Main(m *testing.M) {
	code := m.Run()
	End()
	os.Exit(code)
}

// End ends what the tests of a package share. For a TestMain that does more than Main.
func End() {
	for _, p := range []*place{&common, &alone, &three} {
		for _, s := range p.all {
			s.Kill()
		}
		if p.dir != "" {
			os.RemoveAll(p.dir)
		}
	}
}

// Common returns a server that all tests use at the same time, each below a key of its own. Nobody may
// kill it, or change its data.
func Common(t testing.TB) *Server {
	t.Helper()
	common.mu.Lock()
	defer common.mu.Unlock()
	return common.of(t, 1)[0]
}

// Alone returns a server that only this test uses until it ends.
func Alone(t testing.TB) *Server {
	t.Helper()
	return alone.borrow(t, 1)[0]
}

// Three returns three servers that elect a leader, and that only this test uses until it ends.
func Three(t testing.TB) Servers {
	t.Helper()
	return three.borrow(t, 3)
}

func (p *place) borrow(t testing.TB, n int) Servers {
	t.Helper()
	p.mu.Lock()
	t.Cleanup(p.mu.Unlock)
	all := p.of(t, n)
	for _, s := range all {
		if s.paused {
			s.Resume()
		}
		if s.child == nil {
			s.LaunchOnly()
		}
	}
	all.Ready()
	return all
}

// lasting is for what outlives the test that started it: nothing is cleaned up before the process ends.
type lasting struct {
	testing.TB
	p *place
}

func (l lasting) Cleanup(f func()) { l.p.kept = append(l.p.kept, f) }

// of starts the servers, if that was not done yet, and binds them to this test.
func (p *place) of(t testing.TB, n int) (all Servers) {
	t.Helper()
	if p.all == nil {
		var err error
		if p.dir, err = os.MkdirTemp("", "zktest"); err != nil {
			t.Fatal(err)
		}
		for _, s := range build(lasting{t, p}, n, p.dir) {
			p.all = append(p.all, s.instance)
		}
	}
	for _, s := range p.all {
		all = append(all, &Server{t, s})
	}
	return all
}
