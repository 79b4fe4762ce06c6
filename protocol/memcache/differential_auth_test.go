package memcache

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// TestAuthenticationAgainstMemcached compares the text handshake and its counts.
func TestAuthenticationAgainstMemcached(t *testing.T) {
	file := t.TempDir() + "/users"
	if err := os.WriteFile(file, []byte("katsu:bushi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMemcached(t, "-Y", file)
	inputs := []string{ // nothing after an error: memcached then answers only the last
		"get id\r\n", "version\r\n", "quit\r\n", "mn\r\n", "stats settings\r\n", "get id\n", "\r\n", "x\r\n", "set k 0 0\r\n",
		"set k 0 0 x\r\n", "add k 0 0 11\r\n",
		"set k 0 0 11\r\nkatsu bushi\r\nversion\r\n", "set k 0 0 11\r\nkatsu bushi\r\nmn\r\nverbosity 0\r\n",
		"set a b c 11\r\nkatsu bushi\r\nmn\r\n",
		"set k 0 0 11 noreply\r\nkatsu bushi\r\nmn\r\n", "set  k  0  0  11 \r\nkatsu bushi\r\nmn\r\n",
		"set k 0 0 11\nkatsu bushi\r\nmn\r\n",
		"set k 0 0 11\r\nkatsu bushj\r\n", "set k 0 0 11\r\nkatsv bushi\r\n", "set k 0 0 10\r\nkatsu bush\r\n",
		"set k 0 0 5\r\nkatsu\r\n", "set k 0 0 0\r\n\r\n",
		"set k 0 0 11\r\nkatsu bushixx", "set k 0 0 11\r\nkatsu", "set k 0 0 1 x x\r\na\r\n",
	}
	var figures protocol.Counts
	for _, in := range inputs {
		h := newFake()
		s := newSession(h)
		s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool {
			return string(user) == "katsu" && string(password) == "bushi"
		})
		ours := strings.TrimSuffix(describe(answerTo(t, s, []byte(in))), "<closed>")
		theirs := strings.TrimSuffix(describe(m.ask(t, []byte(in), nil, true)), "<closed>")
		if ours != theirs {
			t.Errorf("%q\n them %s\n us   %s", in, theirs, ours)
		}
		s.config.Counters.AddTo(&figures)
	}
	figures[protocol.CmdAuth]++ // to ask for the statistics
	compareFigures(t, &figures, m.ask(t, []byte("set k 0 0 11\r\nkatsu bushi\r\nstats\r\nquit\r\n"), nil, false),
		"STAT %s ", "\r")
	t.Logf("%d inputs", len(inputs))
}

// TestSASLAgainstMemcached sends memcached the conversations of testdata/auth.txt that consist of
// SASL and NOOP, one request at a time, and compares the answers and the counts.
func TestSASLAgainstMemcached(t *testing.T) {
	m := startMemcached(t, saslArgs(t)...)
	var figures protocol.Counts
	conversations := 0
	for _, b := range transcript.Read(t, "testdata/auth.txt").Talks {
		if !isSASL(&b) {
			continue
		}
		conversations++
		s := session(t, &b)
		c := m.connect(t)
		for i, request := range b.Sent {
			ours, closed := strings.CutSuffix(string(answerTo(t, s, request)), "<closed>")
			if theirs := string(c.frame(t, request)); ours != theirs {
				t.Errorf("%s, request %d\n them %q\n us   %q", b.Name, i, theirs, ours)
			}
			if closed {
				if rest, _ := io.ReadAll(c); len(rest) > 0 {
					t.Errorf("%s: we close after request %d, they say %q", b.Name, i, rest)
				}
				break
			}
		}
		c.Close()
		s.config.Counters.AddTo(&figures)
	}
	if conversations < 10 {
		t.Fatalf("%d conversations", conversations)
	}
	c := m.connect(t)
	login := append([]byte{magicRequest, opSASLAuth, 0, 5, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"PLAIN\x00katsu\x00bushi 1"...)
	c.frame(t, login)
	figures[protocol.CmdAuth]++
	var answer []byte
	for next := c.frame(t, append([]byte{magicRequest, 0x10}, make([]byte, headerLen-2)...)); parseHeader(next).
		key > 0; next = c.frame(t, nil) {
		answer = append(append(append(answer, '\n'), next[headerLen:]...), '\n')
	}
	compareFigures(t, &figures, answer, "\n%s", "\n")
}

// isSASL reports whether memcached should answer a conversation as the transcript does.
func isSASL(b *transcript.Talk) bool {
	if len(b.Sent) == 0 || strings.Contains(b.Name, "third failure") { // memcached goes on
		return false
	}
	for _, request := range b.Sent {
		if request[0] != magicRequest || request[1] != 0x0a && (request[1] < 0x20 || request[1] > 0x22) {
			return false
		}
	}
	return true
}

// saslArgs makes a user file with Cyrus SASL's own tool, and returns the arguments that make
// memcached use it.
func saslArgs(t *testing.T) []string {
	const tool, plugin = "saslpasswd2", "/usr/lib/*/sasl2/libplain.so"
	path, err := exec.LookPath(tool)
	if plugins, _ := filepath.Glob(plugin); err == nil && plugins == nil {
		err = fmt.Errorf("no %s", plugin)
	}
	if err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	config := "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: " + dir + "/db\n"
	if err := os.WriteFile(dir+"/memcached.conf", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	add := exec.Command(path, "-p", "-c", "-f", dir+"/db", "-u", host, "katsu")
	add.Stdin = strings.NewReader("bushi 1")
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("SASL_CONF_PATH", dir)
	return []string{"-S"}
}

// compareFigures compares our counts with memcached's, which appear in answer between before (with
// the name in it) and after.
func compareFigures(t *testing.T, ours *protocol.Counts, answer []byte, before, after string) {
	t.Helper()
	for name, n := range map[string]uint64{"auth_cmds": ours[protocol.CmdAuth], "auth_errors": ours[protocol.AuthErrors]} {
		_, rest, _ := strings.Cut(string(answer), fmt.Sprintf(before, name))
		if theirs, _, ok := strings.Cut(rest, after); !ok || theirs != fmt.Sprint(n) || n == 0 {
			t.Errorf("%s: them %q, us %d", name, theirs, n)
		}
	}
}
