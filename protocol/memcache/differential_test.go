package memcache

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/section"
)

// This server and a real memcached get the same inputs and must give the same answers, except for
// ids, cas values, times and statistics. Every other difference must be listed, and every listed
// one must show. DIFFERENCES.md has the list, for users.

// A difference is a class of inputs that this server deliberately answers differently from
// memcached 1.6.18.
type difference struct {
	what, theirs, ours string // the row of the table in DIFFERENCES.md
	why                string // for who changes it

	// It excuses answers that match all three, as formatted by describe.
	in, them, us *regexp.Regexp
}

var re = regexp.MustCompile

var differences = []difference{
	{"a get of a key that was never stored", "a miss: `END`, `EN`, 0x01, or for quiet gets nothing", "an id",
		"every key is a hit; there is nothing to miss",
		re(`^(gets?|gats? -?\d+|mg|me) |^\[(00|09|0c|0d) key=7`), re(`END|^EN|^HD W|Z|^NF Oprobe|^\[(00|0c) 0001|^\[0a 0000`),
		re(`VALUE|^HD|^VA|^ME|^\[(00|09|0c|0d) 0000 `)},
	{"a verb in upper or mixed case", "`ERROR`", "as in lower case; `GETS` alone leaves the cas out",
		"kayac/go-katsubushi takes them so, and its own client sends `GETS`",
		re(`^ *[A-Za-z]*[A-Z]`), re(`^ERROR`), re(``)},
	{"NUL in a line", "the line ends there", "part of the key", "only spaces separate, whatever else a key holds",
		re(`^[^\[]*\\x00`), re(`END|NF|ERROR`), re(`\\x00|ERROR`)},
	{"a last word that begins with `HTTP/`, after a verb that exists", "as without it", "the connection is closed",
		"a browser's request is recognized whatever its method is; verbs are case-insensitive here, so that `GET` exists",
		re(`HTTP/[^ ]*\\r\\n`), re(``), re(`^<closed>$`)},
	{"`gat` and `gats` with one argument", "`END` or `CLIENT_ERROR invalid exptime argument`", "`ERROR`",
		"a get without a key, as `get` alone",
		re(`^gats? \S+ *\\r\\n`), re(`END|exptime`), re(`^ERROR`)},
	{"a number too large for its field", "its lower 32 bits are taken",
		"`CLIENT_ERROR`, the error of a word that is no number",
		"a length of 4294967296 would be taken for 0, and the value for commands",
		re(`4294967296|99999999999|2147483648`), re(``), re(`CLIENT_ERROR|^NF Oprobe`)},
	{"`bget`", "as `get`", "`ERROR`", "an undocumented relic",
		re(`^bget`), re(`VALUE`), re(`^ERROR`)},
	{"`slabs`, `lru_crawler`, `cache_memlimit`, `refresh_certs`, `watch`", "carried out, or refused in many ways",
		"`ERROR`", "there is nothing that they could act on",
		re(`^(slabs|lru_crawler|cache_memlimit|refresh_certs)`), re(``), re(`^ERROR`)},
	{"`config get KEY`, binary 0x60", "`ERROR`, 0x81: Amazon's has them",
		"the daemon itself for `cluster`, else `END`, 0x01", "ElastiCache's clients look for servers so",
		re(`^config |^\[60 key=7`), re(`^ERROR|0081`), re(`^CONFIG|^END|^\[60 000[01]`)},
	{"`stats cachedump`, `stats extstore`, a group in upper case", "a list of items, `END`, `ERROR`",
		"`ERROR`, `ERROR`, the group", "nothing is stored; words are case-insensitive",
		re(`^stats (cachedump|extstore|SETTINGS)`), re(``), re(`ERROR|STAT`)},
	{"`stats conns`, `stats sizes`, in binary too, and groups that describe stored items", "lines, or 0x01",
		"an empty group", "connections are in the general group; there are no items",
		re(`^stats (items|slabs|conns|sizes)|^\[10 key=5`), re(`STAT|0001`), re(`^END|^\[10 0000`)},
	{"`set`, `replace`, `append`, `prepend`, `cas`, `ms`", "`STORED`, `EXISTS`, `HD`, `NS`, or too large",
		"`SERVER_ERROR read-only: ids are not stored`", "ids are not stored",
		re(`^(set|replace|append|prepend|cas|ms) `), re(`^STORED|^EXISTS|^HD|^NS|^NF|invalid mode|too large`),
		re(`^SERVER_ERROR read-only`)},
	{"binary SET, REPLACE, APPEND, PREPEND and the quiet ones", "success, or nothing",
		"0x05 with the reason, or `Not stored.`", "ids are not stored",
		re(`^\[(01|03|0e|0f|11|13|19|1a) `), re(`^\[\w+ 0000`), re(`^\[\w+ 0005`)},
	{"a storage command that is wrong but for the value's length", "an error, and the value is taken for commands",
		"the same error, and the value is swallowed", "a value must never be executed; newer memcached sees it so too",
		re(`^(set|add|replace|append|prepend|cas|ms) `), re(`ERROR|^NF`),
		re(`^(CLIENT_ERROR bad command line format\\r\\n)?(NF|ERROR)`)},
	{"a value that was announced far too large, and its sender gone", "nothing",
		"`SERVER_ERROR object too large for cache`", "the answer is ready when the length is known",
		re(`2147483645`), re(`^$`), re(`^SERVER_ERROR object too large`)},
	{"`delete`, `touch`, `incr`, `decr`, `md`, `ma` and their binary kin, of a key that would be stored", "done",
		"`NOT_FOUND`, `NF`, 0x01", "an id exists only once it is issued, and then is not here",
		re(`^(delete|touch|incr|decr|md|ma) |^\[(04|14|1c) `), re(`^DELETED|^TOUCHED|^ID|^\d|^HD|^VA|^\[\w\w 0000`),
		re(`^NOT_FOUND|^NF|^\[\w\w 0001`)},
	{"`incr`, `ma` and INCREMENT of a sequence, by 0 or by more than 65,536", "done",
		"`CLIENT_ERROR invalid numeric delta argument`, 0x04", "it would issue nothing, or far too much",
		re(`^incr count |^ma count D|^\[[01]5 key=5`), re(`^\d|^HD|^VA|0000`),
		re(`^CLIENT_ERROR invalid numeric delta argument\\r|^\[[01]5 0004`)},
	{"`decr`, `ma` with MD or M-, and DECREMENT of a declared key", "done, or the error that `incr` gets",
		"`NOT_FOUND`, `NF`, 0x01", "no kind of id goes down",
		re(`^decr (count|uuid) |^ma (count|uuid) M[D-]|^\[[01]6 key=[45]`),
		re(`^\d|^HD|^VA|non-numeric|^\[[01]6 000[026]|^\[0a`), re(`^N|^\[[01]6 0001`)},
	{"`ma` of a sequence with an expiry and t", "the expiry", "`t-1`", "a sequence does not expire",
		re(`^ma count T\d+ t`), re(`t\d`), re(`t-1`)},
	{"the meta flags E, x, and M with a token of any length", "`CLIENT_ERROR`", "as newer memcached: known",
		"clients of newer servers send them",
		re(`^mg \w+ (E|x|M)`), re(`invalid flag|incorrect length`), re(`VA|CLIENT_ERROR bad token`)},
	{"`mg`, `ms`, `md`, `ma` without a key", "`ERROR`", "as newer memcached: `CLIENT_ERROR bad command line format`",
		"it is no unknown command",
		re(`^ *m[gsda] *\\r\\n$`), re(`^ERROR`), re(`^CLIENT_ERROR bad command line format`)},
	{"a line of more than 2,048 bytes that is no get", "an answer or a silent close: it depends on the packets",
		"`CLIENT_ERROR line too long`, then the connection is closed", "an answer must not depend on packets",
		re(`^[^\[]{60}.*\.\.\.`), re(`^VERSION|^ERROR|^<closed>`), re(`^CLIENT_ERROR line too long\\r\\n<closed>$`)},
	{"a line of more than 2,048 bytes that is a `gat` or `gats`", "the connection is closed when its end comes late",
		"answered, as `get` and `gets` are", "it is a get",
		re(`^gats? 0 id id.*\.\.\.`), re(`^<closed>`), re(`^VALUE`)},
	{"a binary request that is unknown and has a key or extras", "answered, then as many bytes too many are swallowed",
		"answered, and exactly its body is swallowed", "the next request must be understood",
		re(`^\[(1b|1f|[3-9a-f]\w|2[5-9a-f]) `), re(`^(\[\w+ 0081 "Unknown command"\])?$`),
		re(`^\[\w+ 0081 "Unknown command"\]\[0a 0000 ""\]$`)},
	{"binary SASL while authentication is off, with lengths that do not fit", "0x04, then the connection is closed",
		"0x81, as with lengths that fit", "what is off is unknown",
		re(`^\[2[012] `), re(`^\[\w+ 0004`), re(`^\[\w+ 0081`)},
	{"binary STAT with a value, with `reset` and more behind it",
		"the value is taken for the next request; the end is ignored", "0x04 and close; 0x01",
		"lengths must fit; group names are whole",
		re(`^\[10 `), re(``), re(`^\[10 000[14]`)},
	{"a binary request whose key or extras are longer than its body",
		"0x81, then the connection is closed; or nothing until as much has come", "0x04, then the connection is closed",
		"it is no unknown command, and no length that is merely claimed is waited for",
		re(`^\[\w+ key=\d+ extras=\d+ value=-`), re(`^$|0081`), re(`^\[\w+ 0004 "Invalid arguments"\]<closed>$`)},
	{"a binary value over 1 MB", "0x03, and the value is swallowed; none for an unknown request",
		"0x04, then the connection is closed", "nothing is allocated or waited for because a client claims it",
		re(`value=[1-9]\d{6}`), re(``), re(`^\[\w+ 0004 "Invalid arguments"\]<closed>$`)},
}

// storedKeys are stored in memcached first, so that its gets hit as ours do.
var storedKeys = []string{"id", "a", "b", "c", "k", "key", "x\ty", "r\rr", "\xe3\x81\x8b", "\xff\xfe", "-", "0", "id\r",
	strings.Repeat("k", 250)}

const storedValue = "1500000000000000000"

// storedCount is the value of the item count in memcached, and the last value of the counter count here.
const storedCount = 4999999999999999990

// The probe is the last request on each connection: its answer shows whether the server still
// listens and is in step.
var (
	textProbe, textProbed     = []byte("md nothing Oprobe\r\n"), []byte("NF Oprobe\r\n")
	binaryProbe, binaryProbed = noop(magicRequest), noop(magicResponse)
)

func noop(magic byte) []byte {
	h := header{opcode: 0x0a, opaque: 0x70726f62}
	b := h.appendResponse(nil, 0, 0, 0, 0, 0)
	b[0] = magic
	return b
}

func TestAgainstMemcached(t *testing.T) {
	m := startMemcached(t)
	var restore []byte
	for _, k := range storedKeys {
		restore = fmt.Appendf(restore, "set %s 0 0 %d noreply\r\n%s\r\n", k, len(storedValue), storedValue)
	}
	restore = fmt.Appendf(restore, "ms aGVsbG8= %d b q\r\n%s\r\n", len(storedValue), storedValue)
	restore = fmt.Appendf(restore, "set count 0 0 19 noreply\r\n%d\r\nset uuid 0 0 1 noreply\r\nx\r\n",
		uint64(storedCount))
	restore = append(restore, textProbe...)

	inputs := corpus()
	seen := make([]int, len(differences))
	agreed := 0
	for _, c := range inputs {
		m.ask(t, restore, textProbed, false)
		in, probed := append([]byte(c.in), textProbe...), textProbed
		if c.in[0] == magicRequest {
			in, probed = append([]byte(c.in), binaryProbe...), binaryProbed
		}
		h := newFake()
		h.next[0] = 1500000000000000000
		s := newSession(h)
		s.config.Cluster = "ids.example|192.0.2.7|11212"
		ours := describe(answerTo(t, s, in))
		var theirs string
		if c.waits {
			theirs = strings.TrimSuffix(describe(m.ask(t, in, nil, true)), "<closed>")
		} else {
			theirs = describe(m.ask(t, in, probed, false))
		}
		if ours == theirs {
			agreed++
		} else if i := excuse(describeInput(c.in), theirs, ours); i >= 0 {
			seen[i]++
		} else {
			t.Errorf("%.200s\n them %.200s\n us   %.200s", describeInput(c.in), theirs, ours)
		}
	}
	listed := 0
	for i, n := range seen {
		if listed += n; n == 0 {
			t.Errorf("listed, but does not show: %s", differences[i].what)
		}
	}
	t.Logf("%d inputs, %d agreements, %d differences of %d listed kinds", len(inputs), agreed, listed, len(differences))
}

// excuse finds the listed difference that covers two answers, or returns -1.
func excuse(in, them, us string) int {
	for i, d := range differences {
		if d.in.MatchString(in) && d.them.MatchString(them) && d.us.MatchString(us) {
			return i
		}
	}
	return -1
}

// describe makes an answer comparable and printable. It quotes text, keeps only opcode, status and
// body of frames, and leaves out what always differs.
func describe(answer []byte) string {
	text, closed := bytes.CutSuffix(answer, []byte("<closed>"))
	var s strings.Builder
	for len(text) >= headerLen && text[0] == magicResponse {
		h := parseHeader(text)
		frame := text[:min(headerLen+h.body, len(text))]
		text = text[len(frame):]
		body := string(frame[headerLen:])
		switch {
		case h.opcode == 0x10 && h.key > 0:
			continue // a statistic
		case h.opcode == 0x0b && frame[7] == 0:
			body = "version"
		}
		fmt.Fprintf(&s, "[%02x %x %q]", h.opcode, frame[6:8], varying(body))
	}
	s.WriteString(varying(quoted(text)))
	if closed {
		s.WriteString("<closed>")
	}
	return s.String()
}

func quoted(b []byte) string {
	q := fmt.Sprintf("%q", b)
	return q[1 : len(q)-1]
}

// describeInput returns what differences match: the start of a text, the lengths of a frame.
func describeInput(in string) string {
	if in[0] != magicRequest {
		q := quoted([]byte(in[:min(len(in), 300)]))
		if len(in) > 300 {
			q += "..." + quoted([]byte(in[len(in)-10:]))
		}
		return q
	}
	h := parseHeader([]byte(in))
	return fmt.Sprintf("[%02x key=%d extras=%d value=%d]", h.opcode, h.key, h.extras, h.value())
}

// varying hides what differs between servers and moments. It gets quoted text.
func varying(s string) string {
	for _, v := range vary {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}

var vary = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{re(`(VALUE (?:[^\\]|\\[^n])* 0 \d+) \d+\\r\\n`), `$1 CAS\r\n`},
	{re(`15000000000\d{8}`), `ID`},
	{re(`VERSION [\d.]+`), `VERSION`},
	{re(`(STAT (?:[^\\]|\\[^n])*\\n)+`), `STAT...\r\n`},
	{re(`exp=-1 la=\d+ cas=\w+ fetch=\w+ cls=\d+ size=\d+`), `exp=-1 ...`},
	{re(`((?:HD|VA)[^\\]*) c\w+`), `$1 cCAS`},
	{re(`((?:HD|VA)[^\\]*) l\d`), `$1 l0`},
	{re(`((?:HD|VA)[^\\]*) h\d`), `$1 h0`},
}

func TestDifferencesAreDocumented(t *testing.T) {
	table := "| input | memcached | katsubushi |\n|---|---|---|\n"
	for _, d := range differences {
		table += fmt.Sprintf("| %s | %s | %s |\n", d.what, d.theirs, d.ours)
	}
	section.Check(t, "DIFFERENCES.md", "differences from memcached", table, *update)
}
