package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/section"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// This server and a real redis-server get the same input and must give the same replies, error texts
// included, except for ids, numbers of connections and times. Every other difference must be listed,
// and every listed one must show. DIFFERENCES.md has the list, for users.

var re = regexp.MustCompile

// stored are the keys that redis-server has, each with a number of seven digits. Our ids have seven
// digits too.
var stored = []string{"id", "a", "b", "c", "orders"}

// vocabulary holds commands that both know; ^ stands for a random word.
var vocabulary = strings.FieldsFunc(`get id|get a|GET ^|get|get a b|mget a b c|mget id|mget|MGET orders id orders a|incr orders|incr id|INCR a|incr|incr orders 2|incr uuid|incr ^
incrby orders 1|incrby orders 65536|incrby orders 65537|incrby orders 0|incrby orders -5|incrby orders x|incrby orders 99999999999999999999|incrby orders 01|incrby orders ^
incrby id 2|incrby id 1|incrby orders|incrby uuid x|incrby ^ ^|ping|ping ^|ping a b|PiNg|echo ^|echo|echo a b|hello|hello 2|hello 3|hello 4|hello 1|hello ^|hello 3 ^|hello 3 setname ^
hello 3 setname|hello 2 auth a|hello 3 auth default x|hello 3 auth default x setname bob|hello 3 setname bob foo|auth x|auth default x|auth a b c|auth
select 0|select 1|select -1|select ^|select|select 99999999999999999999|select 4294967296|quit|quit a|reset|reset a|client id|client getname|client setname ^|client setname bob|client setname ""
client setname|client getname a|client|client ^|client id a|client info|client list|client list type normal|client list type ^|client list ^|client list id|client list id ^|client list type
client no-evict on|client no-evict off|client no-evict ^|client no-touch on|client no-touch x|client setinfo lib-name go|client setinfo lib-ver ^|client setinfo ^ b|client setinfo
dbsize a|type id|type a b|type|exists id|exists a b a|exists|ttl id|ttl|ttl a b|pttl orders|pttl|time|time a|role|role a|readonly|readonly a|readwrite|asking|asking a
acl whoami|acl|acl ^|acl whoami a|cluster slots|cluster myid|cluster|cluster keyslot ^|cluster keyslot|cluster ^|cluster info|cluster nodes|config get save|config get appendonly
config get databases|config get maxmemory|config get timeout|config get SAVE|config get ^|config get|config|config ^|info cluster|info ^|command getkeys get a
command getkeys mget a ^ c|command getkeys set a b|command getkeys mset a 1 b 2|command getkeys ping ^|command getkeys ^ a|command getkeys get a b|command getkeys get|command getkeys client id|command ^
command info get|command docs get|config get m*|command count a|command docs ^|command info ^|command help a|multi|multi|multi|multi a|exec|exec|exec a|discard|discard a|watch a|watch|watch a b|unwatch|unwatch a|set a 1000000|set a|set
del x|del|decr orders|decrby orders 2|decr|append a|expire x 10|expire x|mset a 1000000|lpush l v|getset a 1000000|strlen a|keys|^|^ ^|^ ^ ^ ^|host|"|client|id ^`, func(c rune) bool { return c == '|' || c == '\n' })

var words = []string{"foo", "bar", "x", "''", `"a b"`, `"\x00"`, `"\r\n"`, `"\xff"`, "on", "off", "get", "1", "0", "-1",
	"3", "id", "orders", "auth", "setname", "help a",
	strings.Repeat("x", 130), strings.Repeat("y", 60), strings.Repeat("k", 251), "c3", "*", "[a-z]*", "LIB-VER", "normal",
	"{a}b", `'it\'s'`, "a\tb", "GETX"}

// broken are inputs that are no commands. What follows them is not understood, or is something else.
var brokenInputs = []string{"*x\r\n", "*1\r\n$x\r\n", "*1\r\n$-1\r\n", "*-1\r\n", "*0\r\n", "*-2147483649\r\n",
	"*2147483648\r\n", "*1\r\n*1\r\n", "*1\r\n:1\r\n", "*1\r\n\r\n", "*+1\r\n", "*01\r\n",
	"* 1\r\n", "*1 \r\n", "*\r\n", "*1\r\n$\r\n", "*1\r\n$4 \r\n", "*1\r\n$-0\r\n", "*-0\r\n", "*1\r\n$536870913\r\n",
	"*1\r\n$4\r\npingxx", "*1\rX$4\r\nping\r\n", "*1\n$4\nping\n" + strings.Repeat("x", 40),
	"*" + strings.Repeat("1", 40) + "\r\n", "*1048576\r\n", "*1\r\n$1048577\r\n", "*2\r\n$3\r\nget\r\n$2\r\ni",
	"*2\r\n$3\r\nget\r\n$", "*2\r\n", "*1\r\n$0\r\n\r\n", "*1\r\n$4\r\npost\r\n", "post / http/1.1\r\n",
	"Host: a\r\n", "*1\r\n$5\r\nhost:\r\n", "\"ping\r\n", "ping \"a\"b\r\n", "ping 'a\r\n", "ping \"\\\r\n",
	"ping a\"b c\"\r\n", "\r\n", "  \r\n", "\n", " ping \r\n", "ping\n", "ping\x00abc\r\n",
	"\t ping\x0b\r\n", "*1\r\n+OK\r\n", "*1\r\n\x01\r\n", "*1\r\n$\xff\r\n", "\x80\r\n", "{}\r\n", "get\r\r\n",
	"*3\r\n$3\r\nget\r\n"}

// conversation makes a random input, with some attempts to log in.
func conversation(r *rand.Rand, attempts int) []byte {
	var in []byte
	guesses, queued := 0, false
	for range 1 + r.IntN(7) {
		c := strings.TrimSpace(vocabulary[r.IntN(len(vocabulary))])
		if queued && onlyHere.MatchString(c) { // a transaction ends differently then
			continue
		}
		if r.IntN(12) == 0 && !queued {
			c = "client reply " + [...]string{"on", "off", "skip", "x"}[r.IntN(4)]
		}
		for strings.Contains(c, "^") {
			c = strings.Replace(c, "^", words[r.IntN(len(words))], 1)
		}
		if strings.Contains(c, "auth") {
			if guesses++; guesses > attempts { // we close after three failures
				continue
			}
		}
		queued = queued || c == "multi"
		if r.IntN(2) == 0 || strings.Count(c, `"`)%2 != 0 || strings.Contains(c, `'`) {
			in = append(in, c+"\r\n"...)
			continue
		}
		args := []string{}
		for rest := []byte(c); ; {
			word, more, ok := cutWord(rest)
			if !ok || word == nil {
				break
			}
			args, rest = append(args, string(word)), more
		}
		in = append(in, frame(args...)...)
	}
	if r.IntN(4) == 0 {
		in = append(in, brokenInputs[r.IntN(len(brokenInputs))]...)
	}
	return in
}

// onlyHere matches commands that only one of the two knows.
var onlyHere = re(`setinfo|no-touch|strlen|keys|config \^|command \^|client \^|cluster|acl \^|^[\^]`)

// probe ends what a conversation has begun, and shows that the server still listens. It does not end
// a login: a server that wants one may close a connection that has replies to come and has not.
var probe = append(append([]byte("client reply on\r\n"), frame("DISCARD")...), frame("ECHO", "probe")...)

func TestAgainstRedis(t *testing.T) {
	server := redistest.Start(t, "--databases", "1")
	seed := uint64(time.Now().UnixNano())
	var inputs [][]byte
	for _, in := range brokenInputs {
		inputs = append(inputs, []byte(in))
	}
	for _, lines := range vocabulary {
		inputs = append(inputs, []byte(strings.ReplaceAll(strings.TrimSpace(lines), "^", "foo")+"\r\n"))
		inputs = append(inputs,
			[]byte("hello 3\r\n"+strings.ReplaceAll(strings.TrimSpace(lines), "^", "'"+strings.Repeat("k", 251)+"'")+"\r\n"))
	}
	for i := range uint64(1500) {
		inputs = append(inputs, conversation(rand.New(rand.NewPCG(seed, i)), 2))
	}
	compareAll(t, seed, server, inputs, func() *Session { return newSession(sevenDigits()) }, true)
}

// TestLoginsAgainstRedis compares what a client may do that has not logged in.
func TestLoginsAgainstRedis(t *testing.T) {
	server := redistest.Start(t, "--databases", "1")
	server.Do("CONFIG", "SET", "requirepass", "sesame")
	seed := uint64(time.Now().UnixNano())
	var inputs [][]byte
	for i := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, i))
		in := conversation(r, 1)
		if bytes.Contains(in, []byte("reset")) { // it closes a connection that logs out while replies wait
			continue
		}
		login := [...]string{"auth sesame", "auth default sesame", "hello 3 auth default sesame",
			"hello 2 auth default sesame setname bob", "auth wrong", "hello 3 auth default wrong", "*10", "*11", "*1\r\n$16384",
			"*1\r\n$16385"}
		if at := r.IntN(3); at == 0 {
			in = append([]byte(login[r.IntN(6)]+"\r\n"), in...)
		} else if at == 1 {
			in = append(in, login[r.IntN(len(login))]+"\r\n"...)
		}
		inputs = append(inputs, in)
	}
	compareAll(t, seed, server, inputs, func() *Session {
		s := newSession(sevenDigits())
		s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool {
			return string(user) == "default" && string(password) == "sesame"
		})
		return s
	}, false)
}

// sevenDigits is a fake whose ids have seven digits, like redis-server's values.
func sevenDigits() *fake {
	f := newFake()
	f.Next[""], f.Next["orders"] = 1_000_000, 1_000_000
	return f
}

// compareAll sends all inputs to both, and wants all of the listed differences to show, or not.
func compareAll(t *testing.T, seed uint64, server *redistest.Server, inputs [][]byte, session func() *Session,
	all bool) {
	differences := transcript.Differences(t)
	seen := make([]int, len(differences))
	replies := 0
	for i, in := range inputs {
		restore(t, server)
		in = append(slices.Clip(in), probe...)
		ours, theirs := split(answerTo(t, session(), in)), split(askRedis(t, server, in))
		replies += len(theirs)
		for k := range max(len(ours), len(theirs)) {
			us, them := at(ours, k), at(theirs, k)
			if us == them {
				continue
			}
			if d := excuse(differences, string(in), them, us); d >= 0 {
				seen[d]++
				if strings.HasPrefix(them, "<") || strings.HasPrefix(us, "<") || (us[0] == '-') != (them[0] == '-') &&
					strings.Contains(us+them, "Protocol") {
					break // one of the two is gone
				}
				continue
			}
			t.Errorf("seed %d, input %d %q, reply %d\n them %.300q\n us   %.300q", seed, i, in[:len(in)-len(probe)], k, them, us)
			break
		}
		if t.Failed() && i > 3000 {
			return
		}
	}
	for i, n := range seen {
		if n == 0 && all {
			t.Errorf("listed, but does not show: %s", differences[i].What)
		}
	}
	t.Logf("%d inputs, %d replies, differences %v", len(inputs), replies, seen)
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "<nothing>"
}

// excuse finds the listed difference that covers two replies, or returns -1. In the reply to a
// transaction, each element may be another difference.
func excuse(differences []transcript.Class, in, them, us string) int {
	if t, u := elements(them), elements(us); strings.HasPrefix(us+them, "*") && len(t) == len(u) {
		found := -1
		for i := range t {
			if t[i] != u[i] {
				if found = excuse(differences, in, t[i], u[i]); found < 0 {
					break
				}
			}
		}
		if found >= 0 {
			return found
		}
	}
	return transcript.Excuse(differences, in, them, us)
}

// elements returns the elements of an array.
func elements(reply string) []string {
	_, rest, _ := strings.Cut(reply, "\r\n")
	return split([]byte(rest))
}

// restore makes redis-server's keys what they were.
func restore(t *testing.T, server *redistest.Server) {
	t.Helper()
	keys := []any{"MSET"}
	for _, k := range stored {
		keys = append(keys, k, "5000000")
	}
	if restorer == nil || restorer.server != server {
		c := server.Client()
		restorer = &struct {
			server *redistest.Server
			do     func()
		}{server, func() {
			p := c.Pipeline()
			p.Do(t.Context(), "AUTH", "sesame")
			p.Do(t.Context(), "FLUSHALL")
			p.Do(t.Context(), keys...)
			p.Do(t.Context(), "RPUSH", "uuid", "x")
			p.Exec(t.Context())
		}}
	}
	restorer.do()
}

var restorer *struct {
	server *redistest.Server
	do     func()
}

// askRedis sends the input on a new connection, and returns all that it answers.
func askRedis(t *testing.T, server *redistest.Server, in []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp4", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	c.Write(in)
	c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%.200q: %v", in, err)
	}
	return answer
}

// split cuts an answer into replies and hides what always differs.
func split(answer []byte) (replies []string) {
	answer, closed := bytes.CutSuffix(answer, []byte("<closed>"))
	_ = closed // redis-server's end cannot be told from ours: what follows the input shows it
	r := bufio.NewReader(bytes.NewReader(answer))
	for {
		reply, err := readReply(r)
		if err != nil {
			return replies
		}
		for _, v := range vary {
			reply = v.pattern.ReplaceAllString(reply, v.with)
		}
		replies = append(replies, reply)
	}
}

var vary = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{re(`\b[1-9]\d{6}\b`), "1234567"},
	{re(`\$2\r\nid\r\n:\d+`), "$2\r\nid\r\n:N"},
	{re(`\*2\r\n\$10\r\n\d{10}\r\n\$\d\r\n\d+\r\n`), "*2\r\n$10\r\nthe second\r\n$6\r\nmicros\r\n"},
	{re(`^:\d{1,5}\r\n$`), ":SMALL"}, // CLIENT ID
}

// readReply reads one reply, as it is.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	n := 0
	fmt.Sscan(strings.TrimSpace(line[1:]), &n)
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			b := make([]byte, n+2)
			_, err = io.ReadFull(r, b)
			line += string(b)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~':
		for range n {
			element, err := readReply(r)
			if err != nil {
				return "", err
			}
			line += element
		}
	}
	return line, err
}

func TestDifferencesAreDocumented(t *testing.T) {
	section.Check(t, "DIFFERENCES.md", "differences from redis-server", transcript.Table(t, "redis-server"), *update)
}

// TestCommandsAgainstRedis compares what COMMAND says about each command with what redis-server says:
// arguments, flags, positions of the keys, subcommands.
func TestCommandsAgainstRedis(t *testing.T) {
	client := redistest.Start(t).Client()
	ours := map[string]bool{"client|setinfo": true, "client|no-touch": true} // of newer Redis
	compare := func(e *entry) {
		reply, err := client.Do(t.Context(), "COMMAND", "INFO", e.name).Slice()
		if err != nil {
			t.Fatal(err)
		}
		theirs, ok := reply[0].([]any)
		if !ok {
			if !ours[e.name] {
				t.Errorf("%s: they do not know it", e.name)
			}
			return
		}
		flags := []string{}
		for _, f := range theirs[2].([]any) {
			if f := fmt.Sprint(f); f != "movablekeys" && (!e.refused || f == "write") {
				flags = append(flags, f)
			}
		}
		mine := strings.Fields(e.flags)
		slices.Sort(flags)
		slices.Sort(mine)
		got, want := fmt.Sprint(e.arity, e.first, e.last, e.step, mine),
			fmt.Sprint(theirs[1], theirs[3], theirs[4], theirs[5], flags)
		if got != want {
			t.Errorf("%s: %s, want %s", e.name, got, want)
		}
	}
	for _, e := range entries {
		compare(e)
		for _, sub := range e.sub {
			compare(sub)
		}
	}
	reply, err := client.Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range reply {
		name, flags := fmt.Sprint(c.([]any)[0]), fmt.Sprint(c.([]any)[2])
		if strings.Contains(flags, "write") && find([]byte(name)) == nil {
			t.Errorf("%s writes, and is unknown here", name)
		}
	}
}
