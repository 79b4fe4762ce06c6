package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScripts plays testdata/*.script, each section in a bubble.
func TestScripts(t *testing.T) {
	for _, name := range []string{"servers", "calls", "stock", "resolvers", "settings"} {
		script.Run(t, "testdata/"+name+".script", func(t *testing.T, play func(script.Do)) {
			synctest.Test(t, func(t *testing.T) {
				w := world{t: t, ctx: t.Context(), n: newNetwork(), members: map[string]*member{}, begun: map[string]*begun{},
					names: new(nameServer), c: new(*Client), slept: new(time.Duration)}
				play(w.do)
			})
		})
	}
}

// A world has the servers, the name server and the client of a script. Calls have the context that it has.
type world struct {
	t       *testing.T
	ctx     context.Context
	n       *network
	members map[string]*member
	names   *nameServer
	c       **Client
	begun   map[string]*begun
	aside   bool           // it is not the script that goes on
	slept   *time.Duration // of the machine, on the clock of the stock
}

// A begun call goes on while the script does.
type begun struct {
	cancel context.CancelFunc
	said   chan string
}

// do makes a call. Some words say how, before it:
//
//	begin x id           makes it in a goroutine; "x" is what came of it
//	within 1s id         with a deadline
//	from 1s to 2s id     it takes so long; otherwise the time is told
//	100 times id         one after another
//	100 times 1ms id     with pauses
//	100 callers id       at the same time
//	3 together id        in one request
func (w world) do(words []string) string {
	began, silent := time.Now(), words[0] == "wait"
	said := ""
	n, err := strconv.Atoi(words[0])
	switch {
	case err == nil:
		said = w.several(n, words[1], words[2:])
	case words[0] == "begin":
		var b begun
		w.ctx, b.cancel = context.WithCancel(w.ctx)
		b.said = make(chan string, 1)
		w.begun[words[1]] = &b
		w.aside = true
		go func() { b.said <- w.do(words[2:]) }()
	case words[0] == "within":
		limit, err := time.ParseDuration(words[1])
		if err != nil {
			w.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, limit)
		defer cancel()
		w.ctx = ctx
		said = w.do(words[2:])
		silent = true
	case words[0] == "from":
		said = tookAt.ReplaceAllString(w.do(words[4:]), "")
		least, _ := time.ParseDuration(words[1])
		most, _ := time.ParseDuration(words[3])
		took := time.Since(began)
		silent = least <= took && took <= most
	default:
		said = w.calls().Do(w.t, words)
	}
	if took := time.Since(began); took > 0 && !silent {
		said += fmt.Sprintln("after", took)
	}
	if !w.aside || words[0] == "begin" {
		synctest.Wait()
	}
	return said
}

var tookAt = regexp.MustCompile(`(?m)^after .*\n`)

// several makes a call so often.
func (w world) several(n int, how string, words []string) string {
	said := make([]string, n)
	pause, err := time.ParseDuration(words[0])
	if err == nil {
		words = words[1:]
	}
	var all sync.WaitGroup
	gate := make(chan bool)
	if how == "together" {
		synctest.Wait() // a connection may still yield for those it has just answered
		(*w.c).yield = func() { <-gate }
	}
	one := w.calls()
	for i := range said {
		if how == "times" {
			said[i] = strings.TrimSpace(one.Do(w.t, words))
			time.Sleep(pause)
			continue
		}
		each := w
		if _, limited := w.ctx.Deadline(); !limited {
			each.ctx = contextOf(w.t, i)
		}
		all.Go(func() { said[i] = strings.TrimSpace(each.calls().Do(w.t, words)) })
	}
	if how == "together" {
		synctest.Wait()
	}
	close(gate)
	all.Wait()
	return summary(said, how == "times")
}

// summary says what came of several calls.
func summary(said []string, ordered bool) string {
	var ids []uint64
	others := map[string]int{}
	for _, s := range said {
		if id, err := strconv.ParseUint(strings.TrimPrefix(s, "text-"), 10, 64); err == nil {
			ids = append(ids, id)
		} else if s != "" {
			others[s]++
		}
	}
	var b strings.Builder
	rising := slices.IsSorted(ids)
	slices.Sort(ids)
	if n := len(ids); n > 0 {
		switch whole := ids[n-1]-ids[0] == uint64(n-1); {
		case len(slices.Compact(slices.Clone(ids))) != n:
			fmt.Fprintf(&b, "%d ids, and some of them twice\n", n)
		case ordered && !rising:
			fmt.Fprintf(&b, "%d ids, not in order\n", n)
		case whole:
			fmt.Fprintf(&b, "ids %d to %d\n", ids[0], ids[n-1])
		default:
			fmt.Fprintf(&b, "%d ids\n", n)
		}
	}
	for s, n := range others {
		fmt.Fprintf(&b, "%d times %s\n", n, s)
	}
	return b.String()
}

// causes are the errors that callers look for.
var causes = map[string]error{"ErrClosed": ErrClosed, "ErrUnready": ErrUnready, "ErrRefused": ErrRefused,
	"ErrAnswer": ErrAnswer, "ErrTimeout": ErrTimeout, "ErrCount": ErrCount, "the dial's": errNobody,
	"DeadlineExceeded": context.DeadlineExceeded, "Canceled": context.Canceled}

// told is what a call returned, or its error with what errors.Is finds in it.
func told(result any, err error) string {
	if err == nil {
		return fmt.Sprint(result)
	}
	var is []string
	for name, cause := range causes {
		if errors.Is(err, cause) {
			is = append(is, name)
		}
	}
	slices.Sort(is)
	each := strings.Split(strings.TrimPrefix(err.Error(), "katsubushi client: "), "; ")
	slices.Sort(each) // servers are asked in any order
	text := fmt.Sprintf("%s: %s", strings.Join(append(is, "error"), " "), strings.Join(each, "; "))
	if !reflect.ValueOf(result).IsZero() {
		text = fmt.Sprintf("%v AND %s", result, text)
	}
	return text
}

// calls are the words of scripts.
func (w world) calls() script.Calls {
	of := func(name []string) *Generator {
		if len(name) == 0 {
			return (*w.c).main
		}
		return (*w.c).Generator(plain(name[0]))
	}
	calls := script.Calls{
		"client": w.client,
		"close":  func() error { return (*w.c).Close() },
		"wait":   func(d time.Duration) { time.Sleep(d) },
		"sleep":  func(d time.Duration) { *w.slept += d },
		"cancel": func(name string) { w.begun[name].cancel() },
		"id":     func(name ...string) string { return told(of(name).ID(w.ctx)) },
		"ask":    func() { (*w.c).ID(w.ctx) },
		"text":   func(name ...string) string { return told(of(name).Text(w.ctx)) },
		"ids": func(n int, name ...string) string {
			ids, err := of(name).IDs(w.ctx, n)
			if err != nil || n < 10 {
				return told(ids, err)
			}
			var each []string
			for _, id := range ids {
				each = append(each, fmt.Sprint(id))
			}
			return summary(each, true)
		},
		"fill":  func() { fill(w.t, *w.c) },
		"empty": func() { (*w.c).IDs(w.ctx, (*w.c).main.stock.have) },
		"stock": func() string { return fmt.Sprintf("%d of %d", (*w.c).main.stock.have, (*w.c).main.stock.size) },
		"crowd": func() int64 { return (*w.c).main.stock.crowd.Load() },
		"generator": func(name string) string {
			g, again := (*w.c).Generator(name), (*w.c).Generator(name)
			return fmt.Sprint(g.Name(), ", the same: ", g == again)
		},
		"stats":    w.stats,
		"servers":  w.servers,
		"dials":    w.n.newDials,
		"resolves": w.names.resolves,
		"targets":  w.names.aim,
		"lookups":  w.names.newLookups,
		"name": func(servers ...string) {
			var list []Server
			for i, addr := range servers {
				list = append(list, Server{Addr: addr, Priority: i})
			}
			(*w.c).setServers(list)
		},
	}
	for name, b := range w.begun {
		calls[name] = func() string {
			synctest.Wait()
			select {
			case said := <-b.said:
				return said
			default:
				return "under way"
			}
		}
	}
	w.memberCalls(calls)
	return calls
}

// plain is a word without what stands for other bytes: \r and \n, and x*250 is 250 of x.
func plain(word string) string {
	if text, n, ok := strings.Cut(word, "*"); ok {
		k, _ := strconv.Atoi(n)
		word = strings.Repeat(text, k)
	}
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(word)
}

// client makes a client: of servers, of none, or of dns:NAME:PORT, srv:NAME, tls:ADDR, plain:ADDR, failing:ADDR,ADDR.
// Prefetch=10 and such are settings.
func (w world) client(words ...string) string {
	var addrs []string
	config := Config{Dial: w.n.dial}
	base := time.Now()
	config.now = func() int64 { return int64(time.Since(base) + *w.slept) }
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			addrs = append(addrs, plain(word))
			continue
		}
		switch p := reflect.ValueOf(&config).Elem().FieldByName(name).Addr().Interface().(type) {
		case *string:
			*p = plain(value)
		case *time.Duration:
			*p, _ = time.ParseDuration(value)
		case *func(context.Context, string, string) (net.Conn, error): // that returns neither a connection nor an error
			*p = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		case **tls.Config:
			*p = &tls.Config{ServerName: value}
		default:
			fmt.Sscan(value, p)
		}
	}
	c, err := New(w.resolver(addrs), config)
	if err != nil {
		return told("", err)
	}
	*w.c = c
	w.t.Cleanup(func() {
		c.Close()
		time.Sleep(2 * time.Hour) // the servers end
	})
	return ""
}

func (w world) resolver(addrs []string) Resolver {
	if slices.Equal(addrs, []string{"nobody"}) {
		return nil
	}
	kind, of, _ := strings.Cut(strings.Join(addrs, ""), ":")
	switch kind {
	case "dns":
		return DNSFrom(of, w.names.resolver())
	case "srv":
		return SRVFrom(of, w.names.resolver())
	case "tls":
		return listed{{Addr: of, TLS: SpeaksTLS}}
	case "plain":
		return listed{{Addr: of, TLS: SpeaksPlain}}
	case "failing":
		f := &failing{}
		for addr := range strings.SplitSeq(of, ",") {
			f.list = append(f.list, Server{Addr: addr})
		}
		return f
	}
	return Static(addrs...)
}

// stats are the figures that are not 0.
func (w world) stats() string {
	var b strings.Builder
	s := reflect.ValueOf((*w.c).Stats())
	for i := range s.NumField() - 1 { // the last are the servers
		if f := s.Field(i); !f.IsZero() {
			fmt.Fprint(&b, s.Type().Field(i).Name, " ", f, ", ")
		}
	}
	return strings.TrimSuffix(b.String(), ", ")
}

func (w world) servers() string {
	var b strings.Builder
	for _, s := range (*w.c).Stats().Servers {
		fmt.Fprint(&b, s.Addr, " ", s.Name, ": ", s.Connections, " connections")
		if s.Err != nil {
			fmt.Fprint(&b, ", ", told("", s.Err))
		}
		b.WriteString("\n")
	}
	fmt.Fprint(&b, w.n.open.Load(), " in all")
	return b.String()
}

// newDials tells of the dials since the last time.
func (n *network) newDials() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer clear(n.dials)
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(n.dials), "map["), "]")
}

// A member is a server whose ways a script changes while it runs.
type member struct {
	issuer
	mu       sync.Mutex
	way      func(request string) []byte
	delay    time.Duration
	requests []string
	held     chan bool
}

func (s *member) answer(request string) []byte {
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	delay := s.delay
	out := s.way(request)
	time.Sleep(delay)
	return out
}

// hold waits until the request is let go.
func (s *member) hold(request string) []byte {
	select {
	case <-s.held:
		return s.issuer.answer(request)
	case <-time.After(time.Hour):
		return nil
	}
}

// news are the requests since the last time.
func (s *member) news() string {
	var b strings.Builder
	for len(s.requests) > 0 {
		r := s.requests[0]
		n := slices.IndexFunc(append(s.requests, ""), func(other string) bool { return other != r })
		if k, name, ids := asked(r); !ids && k > 3 {
			r = fmt.Sprintf("get %s and so on, %d keys", name, k)
		}
		if s.requests = s.requests[n:]; n > 1 {
			r += fmt.Sprintf(", %d times", n)
		}
		b.WriteString(r + "\n")
	}
	return b.String()
}

// strange are ways of serving that answer no request.
var strange = map[string]func(net.Conn){
	"never-greets": func(c net.Conn) { io.Copy(io.Discard, c) },
	"never-reads":  func(net.Conn) { time.Sleep(time.Hour) },
	"greets-only":  greetOnly,
	"drips":        drip,
	"drips-tls": func(c net.Conn) {
		go io.Copy(io.Discard, c)
		for b := range slices.Values([]byte("\x16\x03\x03\x40\x00" + strings.Repeat("\x02", 1<<14))) { // a record of 16 KiB
			time.Sleep(100 * time.Millisecond)
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
		}
	},
	"says-ERROR-to-all": func(c net.Conn) {
		go io.Copy(io.Discard, c)
		io.WriteString(c, "ERROR\r\n")
		time.Sleep(time.Second)
	},
}

// memberCalls adds what begins with a server.
func (w world) memberCalls(calls script.Calls) {
	at := func(addr string) *member {
		s := w.members[addr]
		if s == nil {
			s = &member{held: make(chan bool)}
			s.way = s.issuer.answer
			w.members[addr] = s
		}
		return s
	}
	way := func(make func(s *member) func(string) []byte) func(string) {
		return func(addr string) {
			s := at(addr)
			s.way = make(s)
			w.n.set(addr, talk(s.answer))
		}
	}
	calls["serves"] = way(func(s *member) func(string) []byte { return s.issuer.answer })
	calls["holds"] = way(func(s *member) func(string) []byte { return s.hold })
	calls["is-silent"] = way(func(*member) func(string) []byte { return func(string) []byte { return []byte{} } })
	calls["hangs-up"] = way(func(*member) func(string) []byte { return func(string) []byte { return nil } })
	calls["hangs-up-once"] = way(func(s *member) func(string) []byte {
		return func(string) []byte {
			s.way = s.issuer.answer
			return nil
		}
	})
	calls["greets-late"] = func(addr string) {
		w.n.set(addr, func(c net.Conn) {
			time.Sleep(time.Second)
			talk(at(addr).answer)(c)
		})
	}
	calls["lets"] = func(addr string, n int) {
		for range n {
			at(addr).held <- true
			synctest.Wait()
		}
	}
	calls["says"] = func(addr, text string) {
		way(func(*member) func(string) []byte { return func(string) []byte { return []byte(plain(text)) } })(addr)
	}
	calls["breaks-off-once"] = func(addr, text string) { // and hangs up
		way(func(s *member) func(string) []byte {
			return func(string) []byte {
				s.way = s.issuer.answer
				for _, c := range w.n.far[addr] {
					c.Write([]byte(plain(text)))
				}
				return nil
			}
		})(addr)
	}
	calls["takes"] = func(addr string, d time.Duration) { at(addr).delay = d }
	calls["is-at"] = func(addr string, last int) { at(addr).last.Store(uint64(last)) }
	calls["knows-no-ids"] = func(addr string) { at(addr).noIDs = true }
	calls["was-asked"] = func(addr string) string { return at(addr).news() }
	calls["issued"] = func(addr string) string { return fmt.Sprint(at(addr).last.Load(), " ids") }
	calls["cuts"] = func(addr string) { // its connections
		for _, c := range w.n.far[addr] {
			c.Close()
		}
		synctest.Wait()
	}
	calls["is-gone"] = func(addr string) {
		w.n.stop(addr)
		synctest.Wait()
	}
	for name, serve := range strange {
		calls[name] = func(addr string) { w.n.set(addr, serve) }
	}
	calls["wants"] = func(addr, login string) { // before anything else
		s := at(addr)
		trusted := false
		way(func(s *member) func(string) []byte {
			return func(r string) []byte {
				switch {
				case strings.HasPrefix(r, "set login "):
					return []byte{}
				case r == plain(login):
					trusted = true
					return []byte("STORED\r\n")
				case !trusted:
					return []byte("CLIENT_ERROR authentication failure\r\n")
				}
				return s.issuer.answer(r)
			}
		})(addr)
		s.requests = nil
	}
}

// resolves makes addresses, or a code, the answer of the name server.
func (s *nameServer) resolves(addrs ...string) {
	for code, text := range map[dnsmessage.RCode]string{dnsmessage.RCodeNameError: "to-no-name",
		dnsmessage.RCodeServerFailure: "to-a-failure", dnsmessage.RCodeSuccess: "to-nothing"} {
		if slices.Equal(addrs, []string{text}) {
			s.set(code)
			return
		}
	}
	s.set(dnsmessage.RCodeSuccess, addrs...)
}

// aim makes targets the answer of the name server, by priority.
func (s *nameServer) aim(targets ...string) {
	for i, target := range targets {
		host, port, _ := net.SplitHostPort(target)
		n, _ := strconv.Atoi(port)
		s.targets = append(s.targets, dnsmessage.SRVResource{Priority: uint16(10 * (i + 1)), Weight: 1, Port: uint16(n),
			Target: dnsmessage.MustNewName(host)})
	}
}

// newLookups counts since the last time.
func (s *nameServer) newLookups() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, passed := s.asked, time.Since(s.told)
	if s.asked, s.told = 0, time.Now(); n > 1 && n <= 1+int(passed/time.Second) {
		return "at most one a second"
	}
	return n
}
