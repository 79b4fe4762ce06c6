package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
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

// isClosed sends a request, and reports whether the connection is closed instead of an answer. The answer
// has a line feed.
func (k talk) isClosed(request string) bool {
	k.Write([]byte(request))
	_, err := k.ReadString('\n')
	return err != nil
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
	with := append([]string{"-worker-id", "1", "-users", "counters"}, counters...)
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
	ann := talkTo(t, p)
	ann.logIn("ann", "sesame")

	m.Pause()
	logsIn(p, "ann", "sesame", "STORED\r\n")()
	ann.says("get a\r\n", "VALUE a 0 #\r\n#\r\nEND\r\n")
	late := start(t, with...)
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
