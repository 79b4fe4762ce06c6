package protocol

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTextLines(t *testing.T) {
	const format, unknown, found = "CLIENT_ERROR bad command line format\r\n", "ERROR\r\n", "VALUE id 0 3\r\n100\r\nEND\r\n"
	key250, key251 := strings.Repeat("k", 250), strings.Repeat("k", 251)
	for _, c := range []struct{ in, want string }{
		{"get id\r\n", found},
		{"get id\n", found},
		{"  get   id  \r\n", found},
		{"gEt id\r\n", found},
		{"gets id\r\n", "VALUE id 0 3 100\r\n100\r\nEND\r\n"},
		{"GETS id\r\n", found},
		{"Gets id\r\n", "VALUE id 0 3 100\r\n100\r\nEND\r\n"},
		{"gat 0 id\r\n", found},
		{"gats -1 id\r\n", "VALUE id 0 3 100\r\n100\r\nEND\r\n"},
		{"gat x id\r\n", "CLIENT_ERROR invalid exptime argument\r\n"},
		{"gat 0\r\n", unknown},
		{"get a a\r\n", "VALUE a 0 3\r\n100\r\nVALUE a 0 3\r\n101\r\nEND\r\n"},
		{"get a\tb\r\r\n", "VALUE a\tb\r 0 3\r\n100\r\nEND\r\n"},
		{"get \x00\xff\r\n", "VALUE \x00\xff 0 3\r\n100\r\nEND\r\n"},
		{"get\r\n", unknown}, {"gets \r\n", unknown}, {"\r\n", unknown}, {"\n", unknown}, {" \r\n", unknown}, {"x\r\n", unknown},
		{"get " + key250 + "\r\n", "VALUE " + key250 + " 0 3\r\n100\r\nEND\r\n"},
		{"get a " + key251 + " b\r\n", format},
		{"version\r\nVersion 1 2\r\n", "VERSION 1.2.3\r\nVERSION 1.2.3\r\n"},
		{"quit\r\nget id\r\n", "<closed>"},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "<closed>"},
		{"POST /x HTTP/1.0\r\n", "<closed>"},
		{"shutdown\r\n", "ERROR: shutdown not enabled\r\n"},
		{"watch\r\nlru tune\r\nslabs x\r\n", unknown + unknown + unknown},
		{"set k 0 0 8\r\nget id\r\n\r\nget id\r\n", "SERVER_ERROR read-only: ids are not stored\r\n" + found},
		{"add k 0 0 0\r\n\r\n", "NOT_STORED\r\n"},
		{"cas k 0 0 1 7 noreply\r\nx\r\nget id\r\n", found},
		{"set k 0 0 2 noreply\r\nxx\r\nget id\r\n", found},
		{"set k 0 0 1\r\nxyzget id\r\n", "CLIENT_ERROR bad data chunk\r\n" + found},
		{"set k 0 0 -1\r\n", format}, {"set k 0 0 z\r\n", format}, {"set k 0 0\r\n", unknown}, {"set k 0 0 2147483646\r\n", format},
		{"set " + key251 + " 0 0 6\r\nget id\r\nget id\r\n", format + found},
		{"set k x 0 6\r\nget id\r\nget id\r\n", format + found},
		{"delete k\r\ndelete k 0\r\ndelete k noreply\r\ndelete k 1\r\n",
			"NOT_FOUND\r\nNOT_FOUND\r\nCLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"},
		{"touch k 0\r\ntouch k x\r\ntouch k\r\ntouch k 0 noreply\r\n", "NOT_FOUND\r\nCLIENT_ERROR invalid exptime argument\r\n" + unknown},
		{"incr k 1\r\ndecr k -1\r\nincr k 18446744073709551615\r\nincr k 18446744073709551616\r\n",
			"NOT_FOUND\r\nCLIENT_ERROR invalid numeric delta argument\r\nNOT_FOUND\r\nCLIENT_ERROR invalid numeric delta argument\r\n"},
		{"flush_all\r\nflush_all 10\r\nflush_all noreply\r\nflush_all x\r\n", "OK\r\nOK\r\nCLIENT_ERROR invalid exptime argument\r\n"},
		{"verbosity\r\nverbosity 0\r\nverbosity 0 noreply\r\nverbosity foo\r\n", unknown + "OK\r\n" + format},
		{"stats\r\n", "STAT pid 1\r\nSTAT version 1.2.3\r\nSTAT odd a  b\r\nEND\r\n"},
		{"stats settings\r\nstats items\r\nstats conns\r\nstats sizes\r\n", "STAT maxconns 1024\r\nEND\r\nEND\r\nEND\r\nEND\r\n"},
		{"stats reset\r\nstats nonsense\r\nstats " + key251 + "\r\n", "RESET\r\n" + unknown + unknown},
		{"stats detail on\r\nstats detail dump\r\nstats detail\r\n", "OK\r\nEND\r\nCLIENT_ERROR usage: stats detail on|off|dump\r\n"},
		{"get a:1 a:2 b:1 x\r\n", "VALUE a:1 0 7\r\n1000000\r\nVALUE a:2 0 7\r\n1000002\r\nVALUE b:1 0 7\r\n2000000\r\nVALUE x 0 3\r\n100\r\nEND\r\n"},
	} {
		for _, pieces := range [][][]byte{{[]byte(c.in)}, inBytes([]byte(c.in))} {
			if got := answerTo(t, newSession(newFake()), pieces...); string(got) != c.want {
				t.Errorf("%.60q in %d pieces\n got %.200q\nwant %.200q", c.in, len(pieces), got, c.want)
			}
		}
	}
}

func TestLongLines(t *testing.T) {
	const tooLong = "CLIENT_ERROR line too long\r\n<closed>"
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	get := func(total int) string { // a get line of so many bytes
		s := "get"
		for total-len(s)-2 > 251 {
			s += " " + strings.Repeat("k", 199)
		}
		return s + " " + strings.Repeat("z", total-len(s)-3) + "\r\n"
	}
	version := func(total int) string { return "version" + spaces(total-9) + "\r\n" }
	ids := func(line string) string {
		var want []byte
		for i, key := range strings.Fields(line)[1:] {
			want = fmt.Appendf(want, "VALUE %s 0 %d\r\n%d\r\n", key, len(fmt.Sprint(100+i)), 100+i)
		}
		return string(want) + "END\r\n"
	}
	for _, c := range []struct{ name, in, want string }{
		{"line at the limit", version(MaxLine), "VERSION 1.2.3\r\n"},
		{"line over the limit", version(MaxLine + 1), tooLong},
		{"line without an end", strings.Repeat("x", MaxLine), tooLong},
		{"one byte less without an end", strings.Repeat("x", MaxLine-1), ""},
		{"300 KB line", strings.Repeat("x", 300<<10) + "\r\n", tooLong},
		{"get of 2049", get(MaxLine + 1), ids(get(MaxLine + 1))},
		{"get of 200 KB", get(200 << 10), ids(get(200 << 10))},
		{"get at the limit", get(MaxGetLine), ids(get(MaxGetLine))},
		{"get over the limit", get(MaxGetLine + 1), tooLong},
		{"get with a bad key at its end", strings.TrimSpace(get(100<<10)) + strings.Repeat("k", 251) + "\r\n", errFormat},
		{"verb late in the line", spaces(2000) + get(3000), ids(get(3000))},
		{"verb too late in the line", spaces(MaxLine-3) + get(3000), tooLong},
		{"get without an end", strings.TrimSpace(get(MaxLine)), ""},
		{"verb alone", "get" + spaces(MaxLine), "ERROR\r\n"},
	} {
		if c.want == "ERROR\r\n" {
			c.in += "\r\n"
		}
		splits := [][][]byte{{[]byte(c.in)}, inBytes([]byte(c.in)), {[]byte(c.in)[:1500], []byte(c.in)[1500:]}}
		if len(c.in) > 10000 {
			splits[1] = splits[2] // a byte at a time is for the others
		}
		for i, pieces := range splits {
			if got := answerTo(t, newSession(newFake()), pieces...); string(got) != c.want {
				t.Errorf("%s, split %d: got %d bytes %.80q, want %d %.80q", c.name, i, len(got), got, len(c.want), c.want)
			}
		}
	}
}

// A refusal before anything of the line went out leaves nothing but the error; later it stands in place of END. Where the line is
// depends on neither the packets nor what is pipelined before it.
func TestRefusal(t *testing.T) {
	line := func(keys int) string { return "get" + strings.Repeat(" "+strings.Repeat("k", 90), keys) + "\r\n" }
	for _, c := range []struct{ budget, keys, values int }{{1, 3, 0}, {3, 3, 3}, {300, 1000, 0}, {900, 1000, 900}, {1000, 1000, 1000}} {
		in := line(c.keys)
		answer := answerTo(t, newSession(&fake{budget: c.budget}), []byte(in))
		refused := bytes.HasSuffix(answer, []byte("\nSERVER_ERROR no id  for now\r\n")) || string(answer) == "SERVER_ERROR no id  for now\r\n"
		if n := bytes.Count(answer, []byte("VALUE")); n != c.values || refused == (c.keys == c.values) {
			t.Errorf("%d keys, %d ids: %d values, ends in %q", c.keys, c.budget, n, answer[max(0, len(answer)-40):])
		}
		before := strings.Repeat("version\r\n", 4000)
		f := &fake{budget: c.budget}
		if got := answerTo(t, newSession(f), []byte(before+in)); !bytes.HasSuffix(got, append([]byte("VERSION 1.2.3\r\n"), answer...)) {
			t.Errorf("%d keys, %d ids: a pipeline before changes the answer", c.keys, c.budget)
		}
	}
}

func TestOneMintForAllKeysOfASource(t *testing.T) {
	f := newFake()
	f.logged, f.most = true, 3
	answerTo(t, newSession(f), []byte("get a:1 a:2 x y z z z a:3\r\n"))
	if got := strings.Join(f.log, " "); got != "2*1 5*0 2*0 1*1" {
		t.Error(got)
	}
}

func TestCounters(t *testing.T) {
	f := newFake()
	f.budget = 4
	s := newSession(f)
	answerTo(t, s, []byte("get a b\r\ngets c\r\nget d e\r\nnonsense\r\nset k 0 0 1\r\nx\r\nmore"))
	var got Counts
	s.config.Counters.AddTo(&got)
	s.config.Counters.AddTo(&got)
	want := Counts{CmdGet: 4, CmdGets: 2, CmdSet: 2, CmdOther: 2, IDs: 6, Refused: 4, Malformed: 2}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSessionIsSmall(t *testing.T) {
	var s Session
	if n := sizeof(s); n > 64 {
		t.Errorf("%d bytes for each idle connection", n)
	}
}

func TestConfigCheck(t *testing.T) {
	good := Config{Handler: newFake(), Counters: new(Counters), Version: "10.20.30"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, v := range []string{"", "1", "1.2", "v1.2.3", "1.2.3-dev", "1..3", "1.2.3.4", ".1.2.3", "1.2."} {
		c := good
		if c.Version = v; c.Check() == nil {
			t.Errorf("version %q passes", v)
		}
	}
	if (&Config{Counters: good.Counters, Version: good.Version}).Check() == nil || (&Config{Handler: good.Handler, Version: good.Version}).Check() == nil {
		t.Error("an incomplete Config passes")
	}
}
