package memcache

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/section"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

const protocolPage = "../../docs/PROTOCOL.md"

// textCommands are the forms of the text commands with an example of each, whose answer docs/PROTOCOL.md
// shows. What cannot be seen in the answer follows it.
var textCommands = []struct{ form, example, more string }{
	{"get KEY...", "get a b", "each key gets an id"},
	{"gets KEY...", "gets a", "with the cas. `GETS`, all in upper case, has no cas, as kayac's client expects"},
	{"gat EXPTIME KEY...", "gat 0 a", "as `get`"},
	{"gats EXPTIME KEY...", "gats 0 a", "as `gets`"},
	{"ids N [KEY]", "ids 5", "[many ids in a few lines](#many-ids-in-a-few-lines)"},
	{"incr KEY N", "incr orders 3", "[ranges](#ranges-of-a-sequence)"},
	{"mg KEY FLAG...", "mg a v", "without `v`: `HD`. Both use up an id"},
	{"me KEY", "me a", ""},
	{"ma KEY FLAG...", "ma orders D3 v", "[ranges](#ranges-of-a-sequence); other keys: `NF`"},
	{"mn", "mn", ""},
	{"ms KEY BYTES FLAG...", "ms a 1\r\nx", "with `q` too"},
	{"md KEY FLAG...", "md a", ""},
	{"set replace append prepend KEY FLAGS EXPTIME BYTES", "set a 0 0 1\r\nx", ""},
	{"cas KEY FLAGS EXPTIME BYTES CAS", "cas a 0 0 1 9\r\nx", ""},
	{"add KEY FLAGS EXPTIME BYTES", "add a 0 0 1\r\nx", "as for a key that exists"},
	{"delete KEY", "delete a", ""},
	{"touch KEY EXPTIME", "touch a 0", ""},
	{"decr KEY N", "decr a 1", ""},
	{"flush_all [DELAY]", "flush_all", ""},
	{"verbosity LEVEL", "verbosity 1", ""},
	{"stats [GROUP]", "stats reset", "[statistics](#statistics)"},
	{"config get cluster", "config get cluster", "[this daemon alone](#elasticaches-discovery)"},
	{"version", "version", "always three numbers"},
	{"shutdown", "shutdown", ""},
	{"quit", "quit", "nothing, and the connection is closed"},
}

// verbs are those that text.go answers.
func verbs(t *testing.T) (all []string) {
	t.Helper()
	source, err := os.ReadFile("text.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "func (s *Session) execute(")
	for _, m := range regexp.MustCompile(`(?m)^\tcase (".*"):$`).FindAllStringSubmatch(code, -1) {
		for verb := range strings.SplitSeq(m[1], ", ") {
			all = append(all, strings.Trim(verb, `"`))
		}
	}
	return all
}

// TestCommandsAreDocumented: docs/PROTOCOL.md has each text command with what it is answered, and each opcode.
func TestCommandsAreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("| command | an example | its answer |\n|---|---|---|\n")
	var listed []string
	for _, c := range textCommands {
		for _, word := range strings.Fields(c.form) {
			if word != strings.ToLower(word) || word == "..." {
				break
			}
			listed = append(listed, word)
		}
		s := newSession(newFake())
		s.config.Cluster = "ids.example|192.0.2.7|11212"
		answer := shown(answerTo(t, s, []byte(c.example+"\r\n")))
		if c.more != "" {
			answer = strings.TrimPrefix(answer+"; "+c.more, "; ")
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", c.form, strings.ReplaceAll(c.example, "\r\n", "` `"), answer)
	}
	for _, verb := range verbs(t) {
		if !slices.Contains(listed, verb) {
			t.Errorf("%s is not among the commands", verb)
		}
	}
	if n := len(verbs(t)); n < 20 {
		t.Errorf("only %d verbs were found", n)
	}
	section.Check(t, protocolPage, "text commands", table.String(), *update)
	section.Check(t, protocolPage, "binary commands", binaryTable(t), *update)
}

// shown is an answer as code, line by line, without the mark of a close.
func shown(answer []byte) string {
	var lines []string
	for line := range strings.SplitSeq(string(answer), "\n") {
		if line = strings.TrimSpace(line); line != "" && line != strings.TrimSpace(transcript.Closed) {
			lines = append(lines, "`"+strings.ReplaceAll(line, "|", `\\|`)+"`")
		}
	}
	return strings.Join(lines, " ")
}

// opcodeNames are memcached's, from 0x00 on, and that of 0x60.
const opcodeNames = `GET SET ADD REPLACE DELETE INCREMENT DECREMENT QUIT FLUSH GETQ NOOP VERSION GETK GETKQ APPEND PREPEND
	STAT SETQ ADDQ REPLACEQ DELETEQ INCREMENTQ DECREMENTQ QUITQ FLUSHQ APPENDQ PREPENDQ - TOUCH GAT GATQ -
	SASL_LIST_MECHS SASL_AUTH SASL_STEP GATK GATKQ CONFIG_GET`

// binaryTable asks each opcode, of a sequence where it can be, and puts those together that answer alike.
func binaryTable(t *testing.T) string {
	var answers []string
	names := map[string][]string{}
	known := strings.Fields(opcodeNames)
	for code := range opcodes {
		op, name := &opcodes[code], "-"
		if code == 0x60 {
			name = known[len(known)-1]
		} else if code < len(known)-1 {
			name = known[code]
		}
		if named := name != "-"; named != (op.does != unknown) {
			t.Errorf("opcode %#x has the name %q", code, name)
		}
		if name == "-" {
			continue
		}
		extras, key, value := make([]byte, op.extras), "", ""
		if op.does == giveRange {
			extras[7] = 3
		}
		if op.key == with {
			key = map[bool]string{true: "orders", false: "a"}[op.does == giveRange]
		}
		if op.value {
			value = "x"
		}
		s := newSession(newFake())
		if op.does == giveCluster {
			key, s.config.Cluster = "cluster", "ids.example|192.0.2.7|11212"
		}
		answer := binaryShown(answerTo(t, s, frameOf(byte(code), string(extras), key, value)))
		if names[answer] == nil {
			answers = append(answers, answer)
		}
		names[answer] = append(names[answer], name)
	}
	slices.SortStableFunc(answers, func(a, b string) int { return cmp.Compare(a[:4], b[:4]) })
	table := "| request | status, and what the response has |\n|---|---|\n"
	for _, answer := range answers {
		table += fmt.Sprintf("| %s | %s |\n", strings.Join(names[answer], ", "), answer)
	}
	return table
}

// binaryShown says which status a response has, which fields, and its text if that is an error's.
func binaryShown(answer []byte) string {
	var said []string
	for len(answer) >= headerLen && answer[0] == magicResponse {
		h := parseHeader(answer)
		body := answer[headerLen:][:h.body]
		what := fmt.Sprintf("0x%02x", answer[7])
		if h.extras > 0 {
			what += fmt.Sprintf(", %d bytes of flags", h.extras)
		}
		if h.key > 0 {
			what += ", the key"
		}
		switch text := string(body[h.extras+h.key:]); {
		case answer[7] != 0:
			what += " `" + text + "`"
		case text != "":
			what += ", a value"
		}
		if h.cas {
			what += ", the cas"
		}
		if !slices.Contains(said, what) {
			said = append(said, what)
		}
		answer = answer[headerLen+h.body:]
	}
	if strings.TrimSpace(string(answer)) == strings.TrimSpace(transcript.Closed) {
		said = append(said, "the connection is closed")
	}
	if len(said) == 0 {
		return "none"
	}
	return strings.Join(said, "; ")
}
