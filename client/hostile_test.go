package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
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

// TestHalfAnAnswerThenEOF: the same, if the connection has answered before.
func TestHalfAnAnswerThenEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		i := 0
		n.set("bad:1", func(c net.Conn) {
			talk(func(r string) []byte {
				if i++; i%2 == 0 {
					c.Write([]byte("IDS 99999 1 3\r\n"))
					return nil
				}
				return server.answer(r)
			})(c)
		})
		c := n.newClient(t, Config{}, "bad:1")
		three(t, c)
		ids, errs := three(t, c)
		for i := range ids {
			if ids[i] != 0 || errs[i] == nil {
				t.Errorf("id %d, error %v", ids[i], errs[i])
			}
		}
	})
}

// TestClosedIdleConnection: a server that closed an idle connection, or restarted, is asked again over
// a new one, and nobody sees an error.
func TestClosedIdleConnection(t *testing.T) {
	for _, when := range []string{"before the request", "at the request"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var server issuer
			n.set("a:1", func(c net.Conn) {
				asked := 0
				talk(func(r string) []byte {
					if asked++; asked == 2 {
						return nil
					}
					if when == "before the request" {
						time.AfterFunc(time.Second, func() { c.Close() })
					}
					return server.answer(r)
				})(c)
			})
			c := n.newClient(t, Config{}, "a:1")
			for range 5 {
				must(t)(c.ID(t.Context()))
				time.Sleep(2 * time.Second)
			}
			if n.dialled("a:1") < 3 {
				t.Errorf("%s: %d connections", when, n.dialled("a:1"))
			}
		})
	}
}

// TestServerErrorKeepsConnection: SERVER_ERROR means that a server is not ready. Its reason reaches the
// caller, the connection stays, and it is asked again soon.
func TestServerErrorKeepsConnection(t *testing.T) {
	for _, partly := range []string{"", "IDS 7 1 1\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var server issuer
			ready := false
			asked := 0
			n.set("a:1", talk(func(r string) []byte {
				asked++
				if !ready {
					return []byte(partly + "SERVER_ERROR lease expired\r\n")
				}
				return server.answer(r)
			}))
			c := n.newClient(t, Config{}, "a:1")
			for range 20 {
				ids, errs := three(t, c)
				for i := range ids {
					if ids[i] != 0 || !errors.Is(errs[i], ErrUnready) ||
						!strings.Contains(errs[i].Error(), "a:1: not ready: lease expired") {
						t.Errorf("id %d, error %v", ids[i], errs[i])
					}
				}
			}
			if err := c.Stats().Servers[0].Err; !errors.Is(err, ErrUnready) {
				t.Errorf("the server's error is %v", err)
			}
			ready = true
			begin := time.Now()
			if id := must(t)(c.ID(t.Context())); id != 1 {
				t.Errorf("id %d", id)
			}
			if took := time.Since(begin); took > maxUnready || took < maxUnready/2 {
				t.Errorf("asked again after %v", took)
			}
			if s := c.Stats(); n.dialled("a:1") != 1 || s.Failed != s.Requests-1 || s.Received != 1 || s.Servers[0].Err != nil {
				t.Errorf("%d connections; %+v", n.dialled("a:1"), s)
			}
			if asked > 21 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// TestAnotherServerWhileOneIsNotReady: nobody waits for a server that is not ready.
func TestAnotherServerWhileOneIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var good issuer
		n.set("bad:1", talk(func(string) []byte { return []byte("SERVER_ERROR no worker id yet\r\n") }))
		n.set("good:1", good.serve())
		c := n.newClient(t, Config{}, "bad:1", "good:1")
		begin := time.Now()
		for range 100 {
			must(t)(c.ID(t.Context()))
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// TestClientErrorIsFinal: no other server is asked when the request itself is refused.
func TestClientErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var asked int
		for _, addr := range []string{"a:1", "b:1"} {
			n.set(addr, talk(func(string) []byte {
				asked++
				return []byte("CLIENT_ERROR no such generator: x\r\n")
			}))
		}
		c := n.newClient(t, Config{}, "a:1", "b:1")
		for range 3 {
			if id, err := c.Generator("x").ID(t.Context()); id != 0 || !errors.Is(err, ErrRefused) ||
				!strings.Contains(err.Error(), "no such generator: x") {
				t.Errorf("id %d, error %v", id, err)
			}
		}
		if asked != 3 || n.dialled("a:1")+n.dialled("b:1") > 2 {
			t.Errorf("asked %d times over %v", asked, n.dials)
		}
	})
}

// TestServersWithoutIDs: ERROR is remembered for the connection, and get brings the ids.
func TestServersWithoutIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		server := issuer{noIDs: true}
		var requests []string
		n.set("a:1", talk(func(r string) []byte {
			requests = append(requests, strings.Fields(r)[0])
			return server.answer(r)
		}))
		c := n.newClient(t, Config{}, "a:1")
		if text, err := c.Generator("uuid").Text(t.Context()); err != nil || text != "text-00001" { // says nothing about ids
			t.Errorf("%q, %v", text, err)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { must(t)(c.ID(t.Context())) })
			synctest.Wait()
		}
		all.Wait()
		must(t)(c.ID(t.Context()))
		if got := fmt.Sprint(requests); strings.Count(got, "ids") != 1 || !strings.HasPrefix(got, "[get ids get") ||
			n.dialled("a:1") != 1 {
			t.Errorf("%s over %d connections", got, n.dialled("a:1"))
		}
		only := n.newClient(t, Config{GetOnly: true}, "a:1")
		requests = nil
		must(t)(only.ID(t.Context()))
		if got := fmt.Sprint(requests); got != "[get]" {
			t.Errorf("GetOnly: %s", got)
		}
	})
}

// TestErrorsNameEachServer: the error says what every server did.
func TestErrorsNameEachServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("b:1", talk(func(string) []byte { return []byte("SERVER_ERROR lease expired\r\n") }))
		n.set("c:1", talk(func(string) []byte { return []byte{} }))
		c := n.newClient(t, Config{}, "a:1", "b:1", "c:1")
		id, err := c.ID(t.Context())
		if id != 0 || !errors.Is(err, errNobody) || !errors.Is(err, ErrUnready) || !errors.Is(err, ErrTimeout) {
			t.Errorf("id %d, error %v", id, err)
		}
		for _, want := range []string{"a:1: connection refused", "b:1: not ready: lease expired", "c:1: no answer in time"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: no %q", err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		if _, err = c.ID(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "b:1: not ready: lease expired") {
			t.Errorf("at the deadline: %v", err)
		}
	})
}

// TestBackOff: a server that fails is asked after 50 ms, then after twice as long, up to 5 s, less up
// to half of it.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		c := n.newClient(t, Config{}, "a:1")
		last := time.Time{}
		for i, most := 0, 50*time.Millisecond; i < 12; i++ {
			if _, err := c.ID(t.Context()); !errors.Is(err, errNobody) || n.dialled("a:1") != i+1 {
				t.Errorf("error %v after %d dials", err, n.dialled("a:1"))
			}
			if gap := time.Since(last); i > 0 {
				if gap > most || gap < most/2 {
					t.Errorf("dial %d came after %v, want %v at most", i, gap, most)
				}
				most = min(2*most, 5*time.Second)
			}
			last = time.Now()
		}
		var server issuer
		n.set("a:1", server.serve())
		must(t)(c.ID(t.Context()))
		if s := c.servers[0]; s.fails != 0 || s.until != 0 {
			t.Errorf("after an answer: %d failures, until %v", s.fails, s.until)
		}
	})
}

// TestFrozenServerCostsOneTimeout: a connection to a server that accepts but does not answer is not
// ready for requests, so callers wait for none after the first.
func TestFrozenServerCostsOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var good, frozen issuer
		n.set("good:1", good.serve())
		stop := false
		n.set("frozen:1", func(c net.Conn) {
			if stop {
				time.Sleep(time.Hour)
			}
			talk(func(r string) []byte {
				if stop {
					time.Sleep(time.Hour)
				}
				return frozen.answer(r)
			})(c)
		})
		c := n.newClient(t, Config{}, "good:1", "frozen:1")
		for frozen.last.Load() == 0 {
			must(t)(c.ID(t.Context()))
			synctest.Wait()
		}
		stop = true
		begin := time.Now()
		for range 1000 {
			must(t)(c.ID(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begin) - 1000*10*time.Millisecond; took > time.Second {
			t.Errorf("callers waited for %v", took)
		}
	})
}

// TestHandshakeThatNeverEnds: a server that says nothing, or one byte at a time, costs callers
// DialTimeout and no goroutine. Close does not wait for it.
func TestHandshakeThatNeverEnds(t *testing.T) {
	for what, says := range map[string]func(net.Conn){
		"silent": func(net.Conn) { time.Sleep(time.Hour) },
		"drips": func(c net.Conn) {
			for b := range slices.Values([]byte("\x16\x03\x03\x40\x00" + strings.Repeat("\x02", 1<<14))) { // a record of 16 KiB
				time.Sleep(100 * time.Millisecond)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			n.set("a:1", func(c net.Conn) {
				go io.Copy(io.Discard, c)
				says(c)
			})
			c := n.newClient(t, Config{TLS: &tls.Config{ServerName: "a"}}, "a:1")
			for range 3 {
				begin := time.Now()
				id, err := c.ID(t.Context())
				if took := time.Since(begin); id != 0 || !errors.Is(err, ErrTimeout) ||
					!strings.Contains(err.Error(), "not connected after 1s") || took > 2*time.Second {
					t.Errorf("%s: id %d, error %v after %v", what, id, err, took)
				}
			}
			left := make(chan error)
			go func() {
				_, err := c.ID(t.Context())
				left <- err
			}()
			time.Sleep(500 * time.Millisecond) // the handshake has begun
			begin := time.Now()
			go c.Close()
			if err := <-left; !errors.Is(err, ErrClosed) || time.Since(begin) > 0 {
				t.Errorf("%s: %v, %v after Close", what, err, time.Since(begin))
			}
			c.Close()
			if took := time.Since(begin); took > 0 {
				t.Errorf("%s: Close took %v", what, took)
			}
		})
	}
}

// TestLogin: user and password are sent before anything else, and a refusal is told.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		good := false
		trusted := false
		n.set("a:1", talk(func(r string) []byte {
			switch {
			case r == "set login 0 0 10":
				return []byte{}
			case r == "app secret":
				if trusted = good; trusted {
					return []byte("STORED\r\n")
				}
				return []byte("CLIENT_ERROR authentication failure\r\n")
			case !trusted:
				return []byte("CLIENT_ERROR unauthenticated\r\n")
			}
			return server.answer(r)
		}))
		c := n.newClient(t, Config{User: "app", Password: "secret"}, "a:1")
		if id, err := c.ID(t.Context()); id != 0 || !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), "authentication failure") || strings.Contains(err.Error(), "secret") {
			t.Errorf("id %d, error %v", id, err)
		}
		good = true
		must(t)(c.ID(t.Context()))
	})
}

// TestBadCounts: nothing is sent.
func TestBadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", server.serve())
		for _, config := range []Config{{}, {Prefetch: 10}} {
			c := n.newClient(t, config, "a:1")
			for _, k := range []int{0, -1, MaxIDs + 1} {
				if ids, err := c.IDs(t.Context(), k); ids != nil || !errors.Is(err, ErrCount) {
					t.Errorf("IDs(%d): %d ids, error %v", k, len(ids), err)
				}
			}
			for _, name := range []string{"", "a b", "a\r\nget b", "HTTP/1.1", strings.Repeat("x", 251)} {
				if id, err := c.Generator(name).ID(t.Context()); id != 0 || err == nil {
					t.Errorf("name %q: id %d", name, id)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if id, err := c.ID(ended); id != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("id %d, error %v", id, err)
			}
		}
		if n.dialled("a:1") != 0 {
			t.Error("a server was asked")
		}
	})
}

// TestManyIDs: more than a request may have are split, and come sorted, each once.
func TestManyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, config := range []Config{{}, {GetOnly: true}, {Prefetch: 100, MaxAge: time.Hour},
			{Prefetch: 50_000, MaxAge: time.Hour}, {Prefetch: 50_000, MaxAge: time.Hour, GetOnly: true}} {
			n := newNetwork()
			var server issuer
			n.set("a:1", talk(func(r string) []byte {
				if k, _, ids := asked(r); k > maxRange || k > maxBatch && (!ids || config.Prefetch == 0) {
					t.Errorf("%+v: a request for %d ids", config, k)
				}
				return server.answer(r)
			}))
			c := n.newClient(t, config, "a:1")
			for _, k := range []int{1, 2, 999, 1000, 1001, 25_000} {
				ids, err := c.IDs(t.Context(), k)
				if err != nil || len(ids) != k || !slices.IsSorted(ids) || len(slices.Compact(ids)) != k || ids[0] == 0 {
					t.Errorf("%+v: IDs(%d): %d ids, error %v", config, k, len(ids), err)
				}
			}
		}
	})
}

// TestBadSettings: one error has everything that is wrong.
func TestBadSettings(t *testing.T) {
	for _, w := range []struct {
		r      Resolver
		config Config
		want   []string
	}{
		{nil, Config{}, []string{"no Resolver"}},
		{Static(), Config{}, []string{"no servers"}},
		{Static("a", "b:x", ":1", "c:0", "d:65536", "e:1", " f:1"), Config{},
			[]string{`"a"`, `"b:x"`, `":1"`, `"c:0"`, `"d:65536"`, `" f:1"`}},
		{DNS("ids.example"), Config{}, []string{`"ids.example"`}},
		{DNS("/run/ids.sock"), Config{}, []string{"a path is no name"}},
		{SRV("ids.example:11212"), Config{}, []string{"SRV name"}},
		{Static("a:1"), Config{MaxAge: time.Second}, []string{"MaxAge without Prefetch"}},
		{Static(), Config{
			Timeout: -1, DialTimeout: -1, MinBackoff: -1, MaxBackoff: -1, MaxAge: -1, Prefetch: -1, Connections: -1, User: "u",
			Name: "a b",
		}, []string{"no servers", "DialTimeout", "Timeout", "MinBackoff", "MaxBackoff", "MaxAge", "Prefetch", "Connections",
			"User and Password", "Name"}},
		{Static("a:1"), Config{MinBackoff: 2, MaxBackoff: 1, Prefetch: MaxPrefetch + 1, User: "a b", Password: "x\ny"},
			[]string{"MinBackoff", "Prefetch", "line break"}},
	} {
		c, err := New(w.r, w.config)
		if c != nil || err == nil {
			t.Errorf("%v %+v is accepted", w.r, w.config)
			continue
		}
		for _, text := range w.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v: no %q", err, text)
			}
		}
		if got := len(err.(problems)); got != len(w.want) {
			t.Errorf("%v: %d problems, want %d", err, got, len(w.want))
		}
	}
	for _, good := range []Resolver{Static("a:1", "[::1]:2", "/run/ids.sock"), DNS("ids.example:11212"),
		SRV("_ids._tcp.example")} {
		if _, err := (Config{}).settle(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
}

// TestIDsAreSorted: the lanes of a server answer in turns.
func TestIDsAreSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.set("a:1", talk(func(string) []byte { return []byte("IDS 7 1 2\r\nIDS 3 1 1\r\nEND\r\n") }))
		for _, config := range []Config{{}, {Prefetch: 3}} {
			ids, err := n.newClient(t, config, "a:1").IDs(t.Context(), 3)
			if err != nil || fmt.Sprint(ids) != "[3 7 8]" {
				t.Errorf("%+v: %v, %v", config, ids, err)
			}
		}
	})
}

// TestAStoredNumberIsNotHandedOutAgain: a server that repeats its last answer keeps a value, and issues none.
// No second caller gets it, over another connection either; callers of another name, and other servers,
// have nothing to do with it.
func TestAStoredNumberIsNotHandedOutAgain(t *testing.T) {
	for _, stored := range []string{"VALUE id 0 2\r\n77\r\nEND\r\n", "IDS 77 1 1\r\nEND\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var good issuer
			n.set("bad:1", talk(func(r string) []byte {
				switch count, name, ids := asked(r); {
				case ids != strings.HasPrefix(stored, "IDS"):
					return []byte("ERROR\r\n")
				case name == "uuid" && count == 1:
					return []byte("VALUE uuid 0 4\r\na-bc\r\nEND\r\n")
				}
				return []byte(stored)
			}))
			c := n.newClient(t, Config{}, "bad:1")
			if id := must(t)(c.ID(t.Context())); id != 77 {
				t.Fatalf("id %d", id)
			}
			for i := range 3 {
				if id, err := c.ID(t.Context()); id != 0 || !errors.Is(err, ErrAnswer) {
					t.Errorf("again, %d: id %d, %v", i, id, err)
				}
				time.Sleep(time.Minute) // it is asked again, over another connection
			}
			if got := n.dialled("bad:1"); got < 3 {
				t.Errorf("%d connections", got)
			}
			if s := c.Stats(); s.Received != 1 {
				t.Errorf("%+v", s)
			}
			n.set("good:1", good.serve())
			c.setServers([]Server{{Addr: "bad:1"}, {Addr: "good:1", Priority: 1}})
			for range 3 {
				must(t)(c.ID(t.Context()))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // texts
		n := newNetwork()
		n.set("bad:1", talk(func(string) []byte { return []byte("VALUE uuid 0 4\r\na-bc\r\nEND\r\n") }))
		g := n.newClient(t, Config{}, "bad:1").Generator("uuid")
		for i, want := range []string{"a-bc", "", ""} {
			if text, err := g.Text(t.Context()); text != want || (err == nil) != (want != "") {
				t.Errorf("text %d: %q, %v", i, text, err)
			}
			time.Sleep(time.Minute)
		}
	})
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
