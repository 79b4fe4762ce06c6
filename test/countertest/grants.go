package countertest

import (
	"slices"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Grants are the blocks that several goroutines were granted at once.
type Grants struct {
	mu     sync.Mutex
	blocks []counter.Block
}

// Add takes what Reserve returned, and returns its error.
func (g *Grants) Add(b counter.Block, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.blocks = append(g.blocks, b)
	}
	return err
}

// Len is the number of blocks.
func (g *Grants) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocks)
}

// Check wants no value twice, nor a token, and with all none left out, from 1 on. It returns the next one.
func (g *Grants) Check(t testing.TB, step uint64, all bool) (next uint64) {
	t.Helper()
	slices.SortFunc(g.blocks, func(a, b counter.Block) int { return int(int64(a.Lo) - int64(b.Lo)) })
	tokens := map[string]bool{"": false}
	next = 1
	for _, b := range g.blocks {
		if b.Lo < next || all && b.Lo != next || tokens[b.Token] {
			t.Fatalf("a block of token %q begins at %d, after all up to %d", b.Token, b.Lo, next)
		}
		next, tokens[b.Token] = b.Hi+step, b.Token != ""
	}
	return next
}
