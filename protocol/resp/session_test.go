package resp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// A session is no larger than memcache's: each idle connection has one.
func TestASessionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 32 {
		t.Errorf("a session takes %d bytes", size)
	}
}

// A read that waits for another server is the same request to its source when it comes again, or the source would
// fetch ids for each time; the next read is another one. A frozen session still answers reads.
func TestAReplicaFetchesOnce(t *testing.T) {
	f := newFake()
	s := newSession(f)
	s.config.Topology = func() protocol.Topology { return clusterOf(0) }
	in := bytes.Join([][]byte{frame("READONLY"), frame("GET", "away"), frame("GET", "away")}, nil)
	f.refusal = id.ErrWait
	for range 3 {
		n, _, err := s.Feed(0, in, nil)
		if err != id.ErrWait {
			t.Fatal(err)
		}
		in = in[n:]
	}
	f.refusal = nil
	if _, reply, err := s.Feed(0, in, nil); string(reply) != "$1\r\n0\r\n$1\r\n1\r\n" || err != nil {
		t.Errorf("%q, %v", reply, err)
	}
	if m := f.moments; len(m) != 5 || m[0] != m[1] || m[0] != m[2] || m[0] != m[3] || m[4] <= m[3] {
		t.Errorf("asked at %v", m)
	}
	state, _ := s.Freeze()
	thawed, err := Resume(s.config, false, state)
	if err != nil {
		t.Fatal(err)
	}
	if _, reply, err := thawed.Feed(0, frame("GET", "away"), nil); string(reply) != "$1\r\n2\r\n" || err != nil {
		t.Errorf("after an upgrade %q, %v", reply, err)
	}
}

// manyKeys writes an MGET of n keys of several sources.
func manyKeys(r *rand.Rand, n int) []byte {
	args := []string{"MGET"}
	for range n {
		args = append(args,
			[...]string{"id", "orders", "flake", "d:typo", "uuid", strings.Repeat("k", r.IntN(250))}[r.IntN(6)*r.IntN(2)])
	}
	if r.IntN(2) == 0 && n < maxArgs {
		line := strings.Join(args, " ")
		if strings.Contains(line, "  ") || strings.HasSuffix(line, " ") || len(line) > maxInline-2 {
			return frame(args...)
		}
		return []byte(line + "\r\n")
	}
	return frame(args...)
}

// An MGET of any length, alone or in a transaction, is answered alike however its bytes are cut and
// whenever its sources wait, and each id of the answer was issued once.
func TestLongMGETs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, i))
		in := bytes.Join([][]byte{manyKeys(r, 1+r.IntN(6000)), frame("PING")}, nil)
		if r.IntN(2) == 0 {
			in = bytes.Join([][]byte{frame("MULTI"), manyKeys(r, 1+r.IntN(3000)), frame("INCR", "orders"),
				manyKeys(r, 1+r.IntN(3000)), frame("EXEC"), frame("GET", "id")}, nil)
		}
		budget, atMost := r.IntN(3000), r.IntN(200)
		session := func() (*Session, *fake) {
			f := newFake()
			f.budget, f.most = budget, atMost
			return newSession(f), f
		}
		straight, _ := session()
		want := answerTo(t, straight, in)
		waiting, f := session()
		f.waits = r
		for how, s := range map[string]*Session{"waiting": waiting, "cut": first(session())} {
			if got := answerTo(t, s, transcript.SplitAtRandom(in, seed+i)...); !bytes.Equal(got, want) {
				t.Fatalf("seed %d+%d, %s: %s", seed, i, how, transcript.Difference(got, want))
			}
			if got, want := counted(s), counted(straight); got != want {
				t.Fatalf("seed %d+%d, %s: counted %v, want %v", seed, i, how, got, want)
			}
			if s.state != start || s.queued != 0 || s.args != 0 || s.commands != 0 || s.is != inline {
				t.Fatalf("seed %d+%d, %s: the session is not as it was: %+v", seed, i, how, s)
			}
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// The longest MGET there may be is answered, in pieces.
func TestTheLongestMGET(t *testing.T) {
	args := make([]string, maxKeys+1)
	for i := range args {
		args[i] = fmt.Sprint("k", i)
	}
	args[0] = "mget"
	s := newSession(newFake())
	got := answerTo(t, s, frame(args...))
	if want := fmt.Sprintf("$5\r\n%d\r\n", 100+maxKeys-1); !bytes.HasSuffix(got, []byte(want)) ||
		!bytes.HasPrefix(got, []byte("*16384\r\n$3\r\n100\r\n")) {
		t.Errorf("answered %.30q ... %.30q", got, got[max(0, len(got)-30):])
	}
	if n := counted(s); n[protocol.IDs] != maxKeys || n[protocol.CmdGet] != 1 {
		t.Errorf("counted %v", n)
	}
}

// patient waits at the Mints and Reserves that a script marks with w.
type patient struct {
	*fake
	script string
}

func (p *patient) Source(key []byte) id.Source { return patientSource{p, p.fake.Source(key)} }
func (p *patient) Named(key []byte) id.Source {
	if s := p.fake.Named(key); s != nil {
		return patientSource{p, s}
	}
	return nil
}

type patientSource struct {
	p *patient
	id.Source
}

func (s patientSource) Reserve(when id.When, n int) (id.Run, error) {
	if s.p.turn() {
		return id.Run{}, id.ErrWait
	}
	return s.Source.(id.Reserver).Reserve(when, n)
}

func (s patientSource) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if s.p.turn() {
		return id.Run{}, id.ErrWait
	}
	return s.Source.Mint(when, n, bulk)
}

func (p *patient) turn() (wait bool) {
	if p.script != "" {
		wait, p.script = p.script[0] == 'w', p.script[1:]
	}
	return wait
}

// What a Feed that must wait has consumed and answered, and what the next one adds.
func TestWaiting(t *testing.T) {
	for _, c := range []struct{ name, script, in, first, rest string }{
		{"GET", "w", "get a\r\n", "", "get a\r\n"},
		{"GET behind another", "iw", "get a\r\nget b\r\n", "$3\r\n100\r\n", "get b\r\n"},
		{"INCR", "w", "incr orders\r\n", "", "incr orders\r\n"},
		{"INCRBY", "w", "incrby orders 9\r\n", "", "incrby orders 9\r\n"},
		{"MGET of one key", "w", "mget a\r\n", "", "mget a\r\n"},
		{"the first of several", "w", "mget a b\r\n", "", "mget a b\r\n"},
		{"the second of several", "iw", "mget a b c\r\n", "*3\r\n$3\r\n100\r\n", " b c\r\n"},
		{"the second of several in a frame", "iw", string(frame("MGET", "a", "b")), "*2\r\n$3\r\n100\r\n", "$1\r\nb\r\n"},
		{"the last one, and more behind", "iiw", "mget a b c\r\nping\r\n", "*3\r\n$3\r\n100\r\n$3\r\n101\r\n",
			" c\r\nping\r\n"},
		{"the first of a transaction", "w", "multi\r\nget a\r\nget b\r\nexec\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n",
			"get a\r\nget b\r\nexec\r\n"},
		{"the second of a transaction", "iw", "multi\r\nget a\r\nincr orders\r\nexec\r\nping\r\n",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$3\r\n100\r\n", "incr orders\r\nexec\r\nping\r\n"},
		{"an MGET within a transaction", "iw", "multi\r\nmget a b\r\nget c\r\nexec\r\n",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*2\r\n$3\r\n100\r\n", " b\r\nget c\r\nexec\r\n"},
		{"with no reply to this one", "w", "client reply skip\r\nget a\r\nget b\r\n", "", "get a\r\nget b\r\n"},
	} {
		f := newFake()
		f.most = 1
		s := newSession(f)
		s.config.Handler = &patient{f, c.script}
		n, out, err := s.Feed(transcript.Now, []byte(c.in), nil)
		if err != id.ErrWait || string(out) != c.first || c.in[n:] != c.rest {
			t.Errorf("%s: %v, said %q, left %q; want %q, %q", c.name, err, out, c.in[n:], c.first, c.rest)
		}
		again, more, err := s.Feed(transcript.Now, []byte(c.in[n:]), out)
		straight := newSession(newFake())
		if want := answerTo(t, straight, []byte(c.in)); err != nil || n+again != len(c.in) || !bytes.Equal(more, want) {
			t.Errorf("%s: %v, then said %q, want %q", c.name, err, more, want)
		}
		if got, want := counted(s), counted(straight); got != want {
			t.Errorf("%s: counted %v, want %v", c.name, got, want)
		}
		if s.state != start || s.queued != 0 || s.is != inline {
			t.Errorf("%s: the session is not as it was: %+v", c.name, s)
		}
	}
}

// A refusal after a wait half-way takes the place of the missing ids: what was sent is not sent again.
func TestRefusedAfterWaiting(t *testing.T) {
	f := newFake()
	f.most, f.budget = 1, 2
	s := newSession(f)
	s.config.Handler = &patient{f, "iiw"}
	in := []byte("mget a b c d\r\n")
	n, out, _ := s.Feed(transcript.Now, in, nil)
	_, out, err := s.Feed(transcript.Now, in[n:], out)
	if want := "*4\r\n$3\r\n100\r\n$3\r\n101\r\n-TRYAGAIN no id  for now\r\n-TRYAGAIN no id  for now\r\n"; string(
		out) != want || err != nil {
		t.Errorf("%v, said %q, want %q", err, out, want)
	}
	if n := counted(s); n[protocol.IDs] != 2 || n[protocol.Refused] != 2 {
		t.Errorf("counted %v", n)
	}
}

// The limits of a transaction. Nothing of one that is refused is run.
func TestLimitsOfATransaction(t *testing.T) {
	ping, long := frame("INCR", "orders"), frame("ECHO", strings.Repeat("x", maxMessage))
	for _, c := range []struct {
		name    string
		command []byte
		n       int
		fits    bool
	}{
		{"as many commands as there may be", ping, maxTransaction, true},
		{"one more", ping, maxTransaction + 1, false},
		{"as many bytes as there may be", long, maxCommand / len(long), true},
		{"too many bytes", long, maxCommand/len(long) + 1, false},
		{"ignored frames", []byte("*0\r\n"), 2*maxCommand/4 + 9, false},
		{"commands that are refused at once", frame("MULTI"), 2*maxCommand/15 + 9, false},
	} {
		f := newFake()
		s := newSession(f)
		c0 := transcript.Conversation{T: t, Session: s, Most: most}
		c0.Feed(frame("MULTI"))
		batch := c.n/7 + 1
		for n := c.n; n > 0; n -= batch {
			c0.Feed(bytes.Repeat(c.command, min(n, batch)))
		}
		c0.Reply = nil
		c0.Feed(append(frame("EXEC"), frame("GET", "id")...))
		if aborted := bytes.HasPrefix(c0.Reply, []byte("-EXECABORT ")); aborted == c.fits {
			t.Errorf("%s: %.60q", c.name, c0.Reply)
		}
		if !bytes.HasSuffix(c0.Reply, []byte("$3\r\n100\r\n")) {
			t.Errorf("%s: the next command was answered %.60q", c.name, c0.Reply[max(0, len(c0.Reply)-60):])
		}
		if want := map[bool]int{true: c.n}[c.fits && &c.command[0] == &ping[0]]; f.used["orders"] != want {
			t.Errorf("%s: %d ids were issued, want %d", c.name, f.used["orders"], want)
		}
	}
}

// The 16,385th argument, and the longest command.
func TestLimitsOfACommand(t *testing.T) {
	args := func(name string, n int) []byte {
		all := make([]string, n)
		for i := range all {
			all[i] = "k"
		}
		all[0] = name
		return frame(all...)
	}
	fill := maxCommand - len("*2\r\n$3\r\nGET\r\n$1048000\r\n\r\n")
	for _, c := range []struct {
		name, want string
		in         []byte
	}{
		{"1,024 arguments", ":1023\r\n", args("exists", maxArgs)},
		{"1,025 arguments", "-ERR Protocol error: invalid multibulk length\r\n<closed>", args("exists", maxArgs+1)},
		{"16,385 arguments of another command", "-ERR Protocol error: invalid multibulk length\r\n<closed>",
			args("mgetx", maxKeys+1)},
		{"16,386 arguments of MGET", "-ERR Protocol error: invalid multibulk length\r\n<closed>", args("mget", maxKeys+2)},
		{"1 MB", "-ERR key is longer than 250 bytes\r\n", frame("GET", strings.Repeat("x", fill))},
		{"1 MB and a byte", "-ERR Protocol error: too big command\r\n<closed>", frame("GET", strings.Repeat("x", fill+1))},
	} {
		for i, pieces := range [][][]byte{{c.in}, transcript.SplitAtRandom(c.in, 1)} {
			if got := answerTo(t, newSession(newFake()), pieces...); string(got) != c.want {
				t.Errorf("%s, %d: %.100q, want %q", c.name, i, got, c.want)
			}
		}
	}
}

// Half a command keeps only what arrived; a claimed length allocates nothing, and a second look at the
// same bytes starts where the first one ended.
func TestHalfACommand(t *testing.T) {
	whole := bytes.TrimSuffix(frame(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", 9000), " ")...)...),
		[]byte("\r\n"))
	for _, in := range [][]byte{[]byte("*16385\r\n$4\r\nmget\r\n$1000000\r\nx"), []byte("*1000\r\n$100"), whole,
		bytes.Repeat([]byte("x "), 20000)} {
		s := newSession(newFake())
		out := make([]byte, 0, 64)
		if n := testing.AllocsPerRun(10, func() {
			if n, reply, err := s.Feed(transcript.Now, in, out); n != 0 || len(reply) != 0 || err != nil {
				t.Fatalf("%.20q: %d %q %v", in, n, reply, err)
			}
		}); n != 0 {
			t.Errorf("%.40q: %v allocations", in, n)
		}
		if left := len(in) - int(s.scanned); left > 20 {
			t.Errorf("%.40q: %d bytes will be looked at again", in, left)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	inputs := [][]byte{
		frame("GET", "id"), frame("get", "orders"), frame("INCR", "id"), frame("INCRBY", "orders", "10"),
		bytes.Repeat(frame("GET", "id"), 16),
		frame("MGET", "id", "a", "b", "c"),
		frame(append([]string{"MGET"}, strings.Split(strings.Repeat("k ", 99), " ")...)...),
		frame("PING"), frame("PING", "hello"), frame("SELECT", "0"), frame("EXISTS", "a", "b"), frame("TIME"),
		frame("SET", "a", "b"), frame("CLIENT", "SETINFO", "lib-name", "x"),
		[]byte("get id\r\nmget a b c\r\nping\r\n"),
		bytes.Join([][]byte{frame("MULTI"), frame("GET", "a"), frame("INCR", "id"), frame("EXEC")}, nil),
		frame("HELLO", "3"), frame("nonsense", "a"), frame("GET"),
	}
	for _, in := range inputs {
		s := NewSession(&protocol.Config{Handler: &counting{}, Counters: new(protocol.Counters), Version: "1.0.0"}, true)
		s.id()
		out := make([]byte, 0, 1<<20)
		if n := testing.AllocsPerRun(100, func() {
			if n, _, err := s.Feed(transcript.Now, in, out); n != len(in) || err != nil {
				t.Fatal(n, err)
			}
		}); n != 0 {
			t.Errorf("%.40q...: %v allocations", in, n)
		}
	}
}

// counting is the simplest source behind the protocol: consecutive ids.
type counting struct{ next uint64 }

func (c *counting) Source([]byte) id.Source { return c }
func (c *counting) Named([]byte) id.Source  { return c }
func (c *counting) Mint(_ id.When, n int, _ bool) (id.Run, error) {
	c.next += uint64(n)
	return id.Run{First: 1_500_000_000_000_000_000 + c.next, Stride: 1, N: n}, nil
}
func (c *counting) Reserve(when id.When, n int) (id.Run, error) { return c.Mint(when, n, false) }
func (*counting) Stats([]byte, func(name, value string)) bool   { return true }

func BenchmarkFeed(b *testing.B) {
	for _, c := range []struct {
		name string
		in   []byte
		ids  int
	}{
		{"get", frame("GET", "id"), 1}, {"incr", frame("INCR", "orders"), 1}, {"incrby", frame("INCRBY", "orders", "1"), 1},
		{"pipeline16", bytes.Repeat(frame("INCR", "orders"), 16), 16},
		{"mget100", frame(append([]string{"MGET"}, strings.Fields(strings.Repeat("key ", 100))...)...), 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := NewSession(&protocol.Config{Handler: &counting{}, Counters: new(protocol.Counters), Version: "1.0.0"}, false)
			out := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				if n, _, err := s.Feed(0, c.in, out); n != len(c.in) || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.ids), "ns/id")
		})
	}
}

// The numbers of connections are counted over all loops, and only for connections that ask.
func TestNumbersOfConnections(t *testing.T) {
	numbers := new(atomic.Int64)
	var sessions []*Session
	for range 3 {
		s := newSession(newFake())
		s.config.Clients = numbers
		sessions = append(sessions, s)
	}
	for _, c := range []struct {
		session int
		want    string
	}{{2, ":1\r\n"}, {0, ":2\r\n"}, {2, ":1\r\n"}} {
		if got := answerTo(t, sessions[c.session], frame("CLIENT", "ID")); string(got) != c.want {
			t.Errorf("session %d: %q, want %q", c.session, got, c.want)
		}
	}
	if sessions[1].client != nil {
		t.Error("a connection that has not asked takes memory")
	}
}

// A login chooses the Handler: after it the session gets that user's ids, and after another the next
// user's. A failure changes nothing.
func TestALoginChoosesTheHandler(t *testing.T) {
	users := map[string]*protocol.Config{}
	login := func(user, password []byte) (*protocol.Config, error) { return users[string(user)], nil }
	config := func(f *fake) *protocol.Config {
		return &protocol.Config{Handler: f, Counters: new(protocol.Counters), Version: "1.2.3", Auth: login}
	}
	nobody, bob := newFake(), newFake()
	nobody.refusal, bob.refusal = errors.New("nobody may"), errors.New("bob may not")
	users["default"], users["bob"] = config(newFake()), config(bob)
	in := "auth x\r\nget a\r\nauth eve x\r\nget a\r\nauth bob x\r\nget a\r\nhello 2 auth default x\r\nget a\r\n"
	got := string(answerTo(t, NewSession(config(nobody), true), []byte(in)))
	want := []string{"+OK\r\n$3\r\n100\r\n-WRONGPASS", "disabled.\r\n$3\r\n101\r\n+OK\r\n-TRYAGAIN bob may not\r\n*14\r\n",
		"*0\r\n$3\r\n102\r\n"}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q lacks %q", got, w)
		}
	}
}

// What CLIENT REPLY SKIP silences is a whole command, also one that is answered in pieces.
// After what takes long other connections have their turn, however short its reply is, or none.
func TestASlowCommandEndsTheTurn(t *testing.T) {
	for _, c := range []struct{ in, first string }{
		{"INFO x\nINFO x\nPING\n", "INFO x\n"},
		{"PING\nCONFIG GET save\nPING\n", "PING\nCONFIG GET save\n"},
		{"COMMAND INFO get\nPING\n", "COMMAND INFO get\n"},
		{"CLUSTER KEYSLOT a\nPING\n", "CLUSTER KEYSLOT a\n"},
		{"CLIENT REPLY OFF\nCOMMAND\nPING\n", "CLIENT REPLY OFF\nCOMMAND\n"},
		{"MULTI\nINFO x\nINFO x\nEXEC\n", "MULTI\nINFO x\n"},
		{"PING\nCLIENT ID\nGET a\nTIME\n", "PING\nCLIENT ID\nGET a\nTIME\n"},
	} {
		s := newSession(newFake())
		n, _, err := s.Feed(1, []byte(c.in), nil)
		if c.in[:n] != c.first || (err == protocol.ErrEnough) != (c.first != c.in) {
			t.Errorf("%q: %v after %q", c.in, err, c.in[:n])
		}
	}
}

func TestAPieceIsNotACommand(t *testing.T) {
	in := bytes.Join([][]byte{frame("CLIENT", "REPLY", "SKIP"),
		frame(append([]string{"MGET"}, strings.Fields(strings.Repeat("k ", 9000))...)...), frame("GET", "id")}, nil)
	if got, want := string(answerTo(t, newSession(newFake()), in)), "$4\r\n9100\r\n"; got != want {
		t.Errorf("%.60q, want %q", got, want)
	}
}

// What each input is counted as.
func TestCounts(t *testing.T) {
	type counts = map[protocol.Counter]uint64
	for in, want := range map[string]counts{
		"get a\r\nmget a b\r\nget a b\r\n":       {protocol.CmdGet: 3, protocol.IDs: 3, protocol.Malformed: 1},
		"get d:\r\nmget a d: b\r\nmget d: a\r\n": {protocol.CmdGet: 3, protocol.IDs: 2, protocol.Refused: 4},
		"incr orders\r\nincrby orders 5\r\nincr typo\r\nincr uuid\r\nincrby orders 0\r\ndecr orders\r\n": {
			protocol.CmdIncr: 6, protocol.IncrHits: 2, protocol.IDs: 6, protocol.Malformed: 3},
		"set a 1\r\nmset a 1\r\nlpush a 1\r\n": {protocol.CmdSet: 3},
		"del a\r\nunlink a\r\nexpire a 1\r\npersist a\r\nflushall\r\ninfo\r\n": {protocol.CmdDelete: 2, protocol.CmdTouch: 2,
			protocol.CmdFlush: 1, protocol.CmdStats: 1},
		"ping\r\nnonsense\r\nclient foo\r\nhello\r\nhello 9\r\nselect 1\r\n": {protocol.CmdOther: 6, protocol.Malformed: 4},
		"multi\r\nget a\r\nget\r\nexec\r\nmulti\r\nget a\r\nexec\r\n": {protocol.CmdOther: 4, protocol.CmdGet: 2,
			protocol.IDs: 1, protocol.Malformed: 2},
		"*1\r\n$9999999\r\n":               {protocol.Malformed: 1},
		strings.Repeat("x", maxInline):     {protocol.TooLong: 1},
		"*2\r\n$4\r\nECHO\r\n$1048560\r\n": {protocol.TooLong: 1},
		"AUTH get a\r\nhello\r\nauth x\r\nauth sesame\r\nhello 2 auth default sesame\r\nget a\r\n": {
			protocol.Unauthenticated: 2, protocol.CmdAuth: 3, protocol.AuthErrors: 1, protocol.CmdOther: 1, protocol.CmdGet: 1,
			protocol.IDs: 1},
	} {
		s := newSession(newFake())
		if in, locked := strings.CutPrefix(in, "AUTH "); locked {
			s.config.Auth = s.logins(func(_, password []byte) bool { return string(password) == "sesame" })
			answerTo(t, s, []byte(in))
		} else {
			answerTo(t, s, []byte(in))
		}
		got := counts{}
		for i, n := range counted(s) {
			if n > 0 {
				got[protocol.Counter(i)] = n
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%.60q: counted %v, want %v", in, got, want)
		}
	}
}

// Ids that are asked for one at a time count as bulk from the fifth in a Feed on, those of an MGET at
// once; INCRBY never is.
func TestBulk(t *testing.T) {
	f := newFake()
	answerTo(t, newSession(f),
		[]byte("get a\r\nincr id\r\nmget b\r\nget c\r\nget d\r\nincr id\r\nmget e g\r\nincrby orders 2\r\n"))
	want := "1* 1* 1* 1* 1* bulk 1* bulk 2* bulk reserve 2*orders"
	if got := strings.Join(f.log, " "); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}
