package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// A talk is a connection that sends lines and compares what comes back.
type talk struct {
	net.Conn
	*bufio.Reader
	t *testing.T
}

func talkTo(t *testing.T, p *process) talk {
	c := dial(t, "tcp", p.Addr())
	return talk{c, bufio.NewReader(c), t}
}

// says sends and reads as many bytes as are expected. A # stands for the digits of an id.
func (k talk) says(send, want string) {
	k.t.Helper()
	if _, err := k.Write([]byte(send)); err != nil {
		k.t.Fatalf("%q: %v", send, err)
	}
	var got []byte
	for i := 0; i < len(want); i++ {
		b, err := k.ReadByte()
		if err != nil {
			k.t.Fatalf("%q: %q, then %v", send, got, err)
		}
		if want[i] == '#' {
			for b >= '0' && b <= '9' {
				b, _ = k.ReadByte()
			}
			k.UnreadByte()
			b = '#'
		}
		if got = append(got, b); b != want[i] {
			rest, _ := k.Peek(k.Buffered())
			k.t.Fatalf("%q: %q, want %q", send, append(got, rest...), want)
		}
	}
}

func (k talk) logIn(user, password string) {
	k.t.Helper()
	k.says(fmt.Sprintf("set x 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user, password), "STORED\r\n")
}

func binaryFrame(opcode byte, extras, key, value string) string {
	h := make([]byte, 24, 24+len(extras)+len(key)+len(value))
	h[0], h[1], h[3], h[4], h[11] = 0x80, opcode, byte(len(key)), byte(len(extras)), byte(len(extras)+len(key)+len(value))
	return string(h) + extras + key + value
}

// readBinary returns the status and the text of a response.
func (k talk) binary(send string) string {
	k.t.Helper()
	k.Write([]byte(send))
	h := make([]byte, 24)
	for i := range h {
		var err error
		if h[i], err = k.ReadByte(); err != nil {
			k.t.Fatal(err)
		}
	}
	body := make([]byte, h[11])
	for i := range body {
		body[i], _ = k.ReadByte()
	}
	return fmt.Sprintf("%#x %s", h[7], body[h[4]:])
}

// isClosed sends a request, and reports whether the connection is closed instead of an answer. The answer
// has a line feed.
func (k talk) isClosed(request string) bool {
	k.Write([]byte(request))
	_, err := k.ReadString('\n')
	return err != nil
}

// TestProcessUsers: in each protocol a user gets what the rights permit, and nothing is consumed by what they do not.
// Changes of the file reach open connections.
func TestProcessUsers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	run := func(args ...string) {
		t.Helper()
		runUser(t, "sesame\n", append(args, "-auth-file", file)...)
	}
	run("add", "ann", "orders=get,incr", "a*=get")
	run("add", "full", "*=get,incr")
	p := start(t, "-worker-id", "1", "-max-wait", "1m", "-auth-file", file, "-counters", "file://"+t.TempDir(),
		"-state-any-disk", "-generator", "orders sequence", "-generator", "bills sequence")

	ann := talkTo(t, p)
	ann.says("get id\r\n", "CLIENT_ERROR unauthenticated\r\n")
	ann.says("set x 0 0 9\r\nann wrong\r\n", "CLIENT_ERROR authentication failure\r\n")
	ann.logIn("ann", "sesame")
	ann.says("get orders\r\nget orders bills orders\r\nincr bills 5\r\nincr orders 2\r\nids 3\r\n",
		"VALUE orders 0 1\r\n1\r\nEND\r\nCLIENT_ERROR not permitted: bills\r\nCLIENT_ERROR not permitted: bills\r\n3\r\n"+
			"CLIENT_ERROR not permitted: id\r\n")
	sasl := talkTo(t, p)
	if got := sasl.binary(binaryFrame(0x21, "", "PLAIN", "\x00ann\x00sesame")); got != "0x0 Authenticated" {
		t.Errorf("SASL: %s", got)
	}
	if got := sasl.binary(binaryFrame(0x00, "", "bills", "")) + sasl.binary(binaryFrame(0x00, "", "orders",
		"")); got != "0x20 not permitted: bills0x0 4" {
		t.Errorf("binary: %s", got)
	}
	resp := talkTo(t, p)
	command := func(words ...string) string {
		s := fmt.Sprintf("*%d\r\n", len(words))
		for _, w := range words {
			s += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
		}
		return s
	}
	const noPerm = "-NOPERM this user has no permissions to access one of the keys used as arguments: "
	resp.says(command("AUTH", "ann", "wrong"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	resp.says(command("AUTH", "ann", "sesame")+command("ACL", "WHOAMI"), "+OK\r\n$3\r\nann\r\n")
	resp.says(command("GET", "bills")+command("MGET", "orders", "bills")+command("INCRBY", "bills", "3")+
		command("INCR", "id"), noPerm+"bills\r\n"+noPerm+"bills\r\n"+noPerm+"bills\r\n"+noPerm+"id\r\n")
	resp.says(command("MULTI")+command("GET", "bills")+command("INCR", "orders")+command("EXEC"),
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n"+noPerm+"bills\r\n:5\r\n")
	full := talkTo(t, p)
	full.logIn("full", "sesame")
	full.says("get bills\r\n", "VALUE bills 0 1\r\n1\r\nEND\r\n") // nobody has consumed one

	says := func(send, want string) {
		t.Helper()
		await(t, send+" is answered "+want, func() bool {
			fmt.Fprintf(ann, "%s\r\n", send)
			line, _ := ann.ReadString('\n')
			return line == want+"\r\n"
		})
	}
	run("grant", "ann", "bills=incr")
	says("incr bills 1", "2")
	run("revoke", "ann", "orders=incr")
	says("incr orders 1", "CLIENT_ERROR not permitted: orders")
	run("remove", "ann")
	await(t, "the removal is there", func() bool { return ann.isClosed("version\r\n") })
	sasl.Write([]byte(binaryFrame(0x0a, "", "", "")))
	if _, err := sasl.ReadByte(); err == nil || !resp.isClosed(command("PING")) {
		t.Error("another connection of the same user is open")
	}
	full.says("get bills\r\n", "VALUE bills 0 1\r\n3\r\nEND\r\n")
	if log := p.Logged(); strings.Contains(log, "sesame") || strings.Contains(log, "argon2") {
		t.Error("the log shows secrets")
	}
}

// TestProcessRedisCLILogsIn: the real client, with a password and with a token.
func TestProcessRedisCLILogsIn(t *testing.T) {
	t.Parallel()
	cli := need(t, "redis-cli")
	file := filepath.Join(t.TempDir(), "users")
	runUser(t, "sesame\n", "add", "ann", "id=get", "-auth-file", file)
	token := strings.TrimSpace(runUser(t, "", "token", "tok", "id=get", "-auth-file", file))
	p := start(t, "-worker-id", "1", "-auth-file", file)
	_, port, _ := net.SplitHostPort(p.Addr())
	for user, password := range map[string]string{"ann": "sesame", "tok": token} {
		c := exec.Command(cli, "-p", port, "--user", user, "--no-auth-warning")
		c.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
		c.Stdin = strings.NewReader("ACL WHOAMI\nGET orders\nGET id\n")
		out, err := c.CombinedOutput()
		lines := strings.Fields(string(out))
		if err != nil || lines[0] != user || !bytes.Contains(out, []byte("NOPERM")) || len(lines[len(lines)-1]) != 19 {
			t.Errorf("%s: %v\n%s", user, err, out)
		}
	}
}

// TestProcessUsersInEtcd: what is changed there reaches all daemons; while etcd is away those who were read
// log in, and a daemon that starts then says why nobody can.
func TestProcessUsersInEtcd(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	counters := []string{"-counters", etcdtest.URL(t, m)}
	run := func(args ...string) string {
		t.Helper()
		return runUser(t, "sesame\n", append(args, counters...)...)
	}
	with := append([]string{"-worker-id", "1", "-users", "counters", "-http-port", freePort(t)}, counters...)
	p := start(t, with...)
	p.Says(t, "there are no users: no client can log in")
	run("add", "ann", "a*=get")
	token := strings.TrimSpace(run("token", "tok", "*=get"))
	if strings.Contains(m.Get("/katsubushi/"+etcdtest.Namespace(t)+"/user/ann"), "sesame") {
		t.Error("the password is in etcd")
	}
	logsIn := func(p *process, user, password, want string) func() bool {
		return func() bool {
			k := talkTo(t, p)
			fmt.Fprintf(k, "set x 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user, password)
			line, _ := k.ReadString('\n')
			k.Close()
			return line == want
		}
	}
	await(t, "ann logs in", logsIn(p, "ann", "sesame", "STORED\r\n"))
	await(t, "the token logs in", logsIn(p, "tok", token, "STORED\r\n"))
	get := func(path, authorization string) int {
		t.Helper()
		r, _ := http.NewRequest("GET", "http://"+p.HTTP()+path, nil)
		r.Header.Set("Authorization", authorization)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:sesame"))
	if a, b, c := get("/id/abc", basic), get("/id/orders", basic), get("/id/orders", "Bearer "+token); a != 200 ||
		b != 403 || c != 200 {
		t.Errorf("over HTTP: %d %d %d", a, b, c)
	}
	ann := talkTo(t, p)
	ann.logIn("ann", "sesame")

	m.Pause()
	logsIn(p, "ann", "sesame", "STORED\r\n")()
	ann.says("get a\r\n", "VALUE a 0 #\r\n#\r\nEND\r\n")
	late := start(t, append(with[:len(with):len(with)], "-http-port", "0")...)
	const nobody = "nobody can log in yet: the users have not been read from their store\r\n"
	if k := talkTo(t, late); true {
		k.says("set x 0 0 10\r\nann sesame\r\n", "SERVER_ERROR "+nobody)
		k = talkTo(t, late)
		k.says("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsesame\r\n", "-LOADING "+nobody)
	}
	m.Resume()
	await(t, "the late daemon knows ann", logsIn(late, "ann", "sesame", "STORED\r\n"))
	run("remove", "ann")
	await(t, "the removal is there", func() bool { return ann.isClosed("version\r\n") })
	await(t, "it is there too", logsIn(late, "ann", "sesame", "CLIENT_ERROR authentication failure\r\n"))
	if got := run("list"); got != "NAME  LOGIN  RIGHTS\ntok   token  *=get\n" {
		t.Errorf("list: %s", got)
	}
}
