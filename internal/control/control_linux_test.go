package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// squat is a variable that makes this test program another process, which takes names.
const squat = "KATSUBUSHI_CONTROL_TEST_SQUAT"

func TestMain(m *testing.M) {
	if names := os.Getenv(squat); names != "" {
		for _, name := range strings.Fields(names) {
			if _, err := listen(name); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		fmt.Println("taken")
		io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// occupy has another process take names.
func occupy(t *testing.T, names ...string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), squat+"="+strings.Join(names, " "))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// serve serves this process's control socket until the test ends.
func serve(t *testing.T, commands Commands) {
	t.Helper()
	c, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Serve(commands)
	}()
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
}

func echo(argument string, reply func(string, error)) { reply("you said "+argument, nil) }

func TestAsk(t *testing.T) {
	serve(t, Commands{
		"say":  echo,
		"fail": func(_ string, reply func(string, error)) { reply("", errors.New("two\nlines")) },
	})
	if text, err := Ask(os.Getpid(), "say  1m0s x", time.Minute, time.Minute); text != "you said  1m0s x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	refusal := (*Refusal)(nil)
	_, err := Ask(os.Getpid(), "fail", time.Minute, time.Minute)
	if !errors.As(err, &refusal) || errors.Is(err, ErrUnknown) || err.Error() != "two; lines" {
		t.Errorf("a failure: %v", err)
	}
	_, err = Ask(os.Getpid(), "dance now", time.Minute, time.Minute)
	if !errors.Is(err, ErrUnknown) || err.Error() != `"dance now" is not understood: fail, say can be asked for` {
		t.Errorf("a word that it does not know: %v", err)
	}
	// What commit d2ee9ea answers to a request that is not an upgrade.
	if !errors.Is(&Refusal{`"state-dir" is not understood: upgrade TIMEOUT is`}, ErrUnknown) {
		t.Error("an earlier daemon's refusal is not ErrUnknown")
	}
	_, err = Ask(os.Getpid(), strings.Repeat("x", maxRequest), time.Minute, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "at most 1024 bytes") {
		t.Errorf("a long request: %v", err)
	}
	_, err = Ask(1<<22+1, "say", time.Minute, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "process 4194305 is not a daemon that can be upgraded or asked") {
		t.Errorf("no daemon: %v", err)
	}
}

// TestAskOneThatStandsStill: one that does not read the request, as one that is stopped, is given up long before
// the time for the answer is over. The error says so, which commands tell from a refusal. The request is sent
// although the time is over before that, as it may be on a busy machine.
func TestAskOneThatStandsStill(t *testing.T) {
	c, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, unread := range []time.Duration{0, time.Millisecond} {
		_, err = Ask(os.Getpid(), "where", unread, time.Hour)
		if !errors.Is(err, os.ErrDeadlineExceeded) ||
			!strings.Contains(err.Error(), fmt.Sprintf("has not read the request for %v: ", unread)) {
			t.Errorf("%v", err)
		}
	}
}

// TestAskOneThatTakesItsTime: one that has read the request is waited for, and its answer is taken.
func TestAskOneThatTakesItsTime(t *testing.T) {
	end := make(chan struct{})
	begun := make(chan struct{}, 1)
	held := func(_ string, reply func(string, error)) {
		begun <- struct{}{}
		<-end
		reply("it is done", nil)
	}
	serve(t, Commands{"hold": held})
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: fmt.Sprintf("@%s%d", prefix, os.Getpid()), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answered := make(chan error)
	go func() {
		_, err := exchange(conn, "hold", 24*time.Hour, 24*time.Hour)
		answered <- err
	}()
	<-begun
	if waits(conn) {
		t.Error("a request that was read seems unread")
	}
	close(end)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestNameTaken: another process that has taken the name of this one's control socket, and more that look
// like it, keeps no command from finding this one. Nor is it taken for a daemon.
func TestNameTaken(t *testing.T) {
	name := fmt.Sprintf("%s%d", prefix, os.Getpid())
	occupy(t, name, name+"/AAAAAAAAAAAAAAAAAAAAAAAAAA", name+"/Z", prefix+"1", prefix+"1/A")
	serve(t, Commands{"say": echo})
	if text, err := Ask(os.Getpid(), "say it", time.Minute, time.Minute); text != "you said it" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	found, err := Find()
	own := slices.DeleteFunc(slices.Clone(found), func(d Daemon) bool { return d.PID != os.Getpid() && d.PID != 1 })
	// Tests of other packages have daemons, too.
	if !slices.Equal(own, []Daemon{{os.Getpid(), os.Geteuid()}}) || err != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	_, err = Ask(1, "say it", time.Minute, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "process 1 does not answer for itself: process ") {
		t.Errorf("a name that another process has: %v", err)
	}
}

// as calls f on a thread of another user.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		_, _, no := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if no != 0 {
			done <- no
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Skipf("no thread of another user: %v", err)
	}
}

// open connects and says nothing, as this thread's user. The socket is a blocking one.
func open(t *testing.T) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@%s%d", prefix, os.Getpid())})
	}
	if err != nil {
		t.Error(err)
	}
	return fd
}

// TestStrangers: another user is told why not, and disconnected, before it has said anything: it holds no
// descriptor. The daemon's own user has a few.
func TestStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	serve(t, Commands{"say": echo})
	as(t, 65534, func() {
		for range 200 {
			f := os.NewFile(uintptr(open(t)), "stranger")
			defer f.Close() // at the end: all are open at the same time
			text, err := io.ReadAll(f)
			const want = "refused only root and the user of the daemon may ask for this: " +
				"its user id is 0, yours 65534\n"
			if err != nil || string(text) != want {
				t.Errorf("a stranger reads %q, %v", text, err)
				return
			}
		}
	})
	var held []net.Conn
	for range maxRequests + 1 {
		c, err := net.Dial("unix", fmt.Sprintf("@%s%d", prefix, os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	text, err := io.ReadAll(held[maxRequests])
	if err != nil || string(text) != "refused 16 requests are under way already\n" {
		t.Errorf("one more than allowed reads %q, %v", text, err)
	}
	for _, c := range held {
		c.Close()
	}
	for { // the daemon notices their end in its own time
		text, err := Ask(os.Getpid(), "say it", time.Minute, time.Minute)
		if err == nil && text == "you said it" {
			break
		}
		if err == nil || !strings.Contains(err.Error(), "under way") {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

// TestFullBacklog: sockets without room for connections do not keep a command from the daemon's.
func TestFullBacklog(t *testing.T) {
	for i := range 8 {
		name := fmt.Sprintf("@%s%d/full%d", prefix, os.Getpid(), i)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			var c net.Conn
			if c, err = net.Dial("unix", name); err == nil {
				defer c.Close()
			}
		}
		if !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
	}
	serve(t, Commands{"say": echo})
	if text, err := Ask(os.Getpid(), "say it", time.Minute, time.Minute); text != "you said it" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
