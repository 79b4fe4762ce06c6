package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// three has three callers ask for an id in one request.
func three(t testing.TB, c *Client) (ids [3]uint64, errs [3]error) {
	gate := make(chan bool)
	synctest.Wait() // a connection may still yield for those it has just answered
	c.yield = func() { <-gate }
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i], errs[i] = c.ID(contextOf(t, i)) })
	}
	synctest.Wait()
	close(gate)
	all.Wait()
	return ids, errs
}

// TestWrongAnswerEndsTheConnection: no id of a wrong answer is used, the connection is closed, and the
// next server is asked. Without another one, everybody in the batch gets the error.
func TestWrongAnswerEndsTheConnection(t *testing.T) {
	type wrong struct {
		name   string
		config Config
		answer []byte // nil: closes
		errors []error
	}
	list := []wrong{
		{"nothing for the time-out", Config{}, []byte{}, []error{ErrTimeout}},
		{"half an answer for the time-out", Config{}, []byte("IDS 7 1 3\r\nEN"), []error{ErrTimeout}},
		{"EOF", Config{}, nil, nil},
	}
	for _, w := range wrongAnswers {
		if w.get != "" {
			list = append(list, wrong{"get: " + w.name, Config{GetOnly: true}, []byte(w.get), []error{ErrAnswer, ErrTimeout}})
		}
		if w.ids != "" {
			list = append(list, wrong{"ids: " + w.name, Config{}, []byte(w.ids), []error{ErrAnswer, ErrTimeout}})
		}
	}
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				var good issuer
				good.last.Store(1000)
				n.set("bad:1", talk(func(r string) []byte { return w.answer }))
				c := n.newClient(t, w.config, "bad:1")
				ids, errs := three(t, c)
				for i := range ids {
					if ids[i] != 0 || errs[i] == nil || !strings.Contains(errs[i].Error(), "bad:1: ") {
						t.Errorf("id %d, error %v", ids[i], errs[i])
					}
					if w.errors != nil && !slices.ContainsFunc(w.errors, func(e error) bool { return errors.Is(errs[i], e) }) {
						t.Errorf("error %v, want one of %v", errs[i], w.errors)
					}
				}
				synctest.Wait()
				if open, s := n.open.Load(), c.Stats(); open != 0 || s.Received != 0 || s.Servers[0].Connections != 0 ||
					s.Servers[0].Err == nil {
					t.Errorf("%d connections are open; %+v", open, s)
				}
				// The same with another server behind it.
				c.setServers([]Server{{Addr: "bad:1"}, {Addr: "good:1", Priority: 1}})
				n.set("good:1", good.serve())
				time.Sleep(time.Minute) // the back-off is over: bad is asked first
				ids, errs = three(t, c)
				for i := range ids {
					if errs[i] != nil || ids[i] <= 1000 {
						t.Errorf("id %d, error %v", ids[i], errs[i])
					}
				}
				if n.dialled("bad:1") < 2 {
					t.Error("the first server was not asked")
				}
			})
		})
	}
}

// TestAnIDInTwoAnswers: IDs has them all at once, and hands none out twice.
func TestAnIDInTwoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		next, twice := 1, uint64(0)
		n.set("bad:1", talk(func(r string) []byte {
			count, _, _ := asked(r)
			first := next
			next += count
			if first > 1 && twice > 0 { // an id of the first answer, but not its last one
				return fmt.Appendf(nil, "IDS %d 1 1\r\nIDS %d 1 %d\r\nEND\r\n", twice, first, count-1)
			}
			return fmt.Appendf(nil, "IDS %d 1 %d\r\nEND\r\n", first, count)
		}))
		c := n.newClient(t, Config{}, "bad:1")
		if ids, err := c.IDs(t.Context(), maxBatch+5); err != nil || len(ids) != maxBatch+5 {
			t.Fatalf("%d ids, %v", len(ids), err)
		}
		for _, twice = range []uint64{1, 2, maxBatch - 1} {
			next = 1
			if ids, err := c.IDs(t.Context(), maxBatch+5); ids != nil || !errors.Is(err, ErrAnswer) ||
				!strings.Contains(err.Error(), fmt.Sprintf("id %d twice, in two answers", twice)) {
				t.Errorf("%d: %d ids, %v", twice, len(ids), err)
			}
			time.Sleep(time.Minute)
		}
	})
}
