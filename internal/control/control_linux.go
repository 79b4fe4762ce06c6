package control

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const prefix = "katsubushi/control/"

const (
	// askTimeout is how long a client may take to say what it wants, and to take the answer.
	askTimeout = 5 * time.Second
	// maxRequests is the most requests at a time, and so the most descriptors.
	maxRequests = 16
	// maxRequest is the most bytes of a request.
	maxRequest = 1024
	// maxAnswer is the most bytes of an answer.
	maxAnswer = 1 << 20
	// crowded is how long a command goes on trying names whose sockets have no room for a connection.
	crowded = 3 * time.Second
)

// A Control is where a daemon is asked.
type Control struct{ ln *net.UnixListener }

// Listen opens the Control of this process.
func Listen() (*Control, error) {
	name := prefix + strconv.Itoa(os.Getpid())
	ln, err := listen(name)
	if errors.Is(err, syscall.EADDRINUSE) { // earlier programs find only the name without a tail
		ln, err = listen(name + "/" + rand.Text())
	}
	if err != nil {
		return nil, err
	}
	return &Control{ln}, nil
}

func listen(name string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
}

// Close ends Serve.
func (c *Control) Close() error { return c.ln.Close() }

// Serve answers until Close.
func (c *Control) Serve(commands Commands) {
	slots := make(chan struct{}, maxRequests)
	for {
		conn, err := c.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is left, for example
			time.Sleep(time.Second)
			continue
		}
		conn.SetDeadline(time.Now().Add(askTimeout))
		if err := admit(conn); err != nil {
			answer(conn, "", err)
			conn.Close()
			continue
		}
		select {
		case slots <- struct{}{}:
			go func() {
				serveOne(conn, commands)
				<-slots
			}()
		default:
			answer(conn, "", fmt.Errorf("%d requests are under way already", maxRequests))
			conn.Close()
		}
	}
}

// admit returns why a client may not ask. It costs no wait, so the next one is not held up.
func admit(conn *net.UnixConn) error {
	who, err := peer(conn)
	if err != nil || who.UID != 0 && who.UID != os.Geteuid() {
		return fmt.Errorf("only root and the user of the daemon may ask for this: its user id is %d, yours %d",
			os.Geteuid(), who.UID)
	}
	return nil
}

func answer(conn *net.UnixConn, text string, err error) {
	word := "done"
	if err != nil {
		word, text = "refused", err.Error()
	}
	fmt.Fprintf(conn, "%s %s\n", word, strings.ReplaceAll(text, "\n", "; "))
}

func serveOne(conn *net.UnixConn, commands Commands) {
	defer conn.Close()
	line, err := bufio.NewReaderSize(conn, maxRequest).ReadSlice('\n')
	reply := func(text string, err error) {
		conn.SetDeadline(time.Now().Add(askTimeout))
		answer(conn, text, err)
	}
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			reply("", fmt.Errorf("a request has at most %d bytes", maxRequest))
		}
		return
	}
	request := strings.TrimSpace(string(line))
	word, argument, _ := strings.Cut(request, " ")
	command := commands[word]
	if command == nil {
		known := strings.Join(slices.Sorted(maps.Keys(commands)), ", ")
		reply("", fmt.Errorf("%q is not understood: %s can be asked for", request, known))
		return
	}
	command(argument, reply)
}

// peer returns process and user of the other end. A process of another pid namespace has number 0.
func peer(conn *net.UnixConn) (d Daemon, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Daemon{UID: -1}, err
	}
	var cred *unix.Ucred
	closed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if closed != nil || err != nil {
		return Daemon{UID: -1}, errors.Join(closed, os.NewSyscallError("getsockopt", err))
	}
	return Daemon{PID: int(cred.Pid), UID: int(cred.Uid)}, nil
}

// listeners matches a line of /proc/net/unix that shows a socket that listens under a daemon's name.
var listeners = regexp.MustCompile(`(?m)^\S+ \S+ \S+ 00010000 0001 01 +\d+ @(` + prefix + `(\d+)(?:/\w+)?)$`)

// A candidate is a name that may be a daemon's.
type candidate struct {
	name string
	pid  int
}

// candidates returns all names that could be daemons', in this network namespace.
func candidates() (all []candidate, err error) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	for _, m := range listeners.FindAllStringSubmatch(string(list), -1) {
		if pid, err := strconv.Atoi(m[2]); err == nil {
			all = append(all, candidate{m[1], pid})
		}
	}
	return all, nil
}

// An impostor is a process that listens under another one's name.
type impostor struct {
	pid int // whose name it is
	by  Daemon
}

func (i *impostor) Error() string {
	return fmt.Sprintf("process %d does not answer for itself: process %d of user %d does", i.pid, i.by.PID, i.by.UID)
}

// connect connects to a candidate if it is what its name says.
func (c candidate) connect() (*net.UnixConn, Daemon, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + c.name, Net: "unix"})
	if err != nil {
		return nil, Daemon{}, err
	}
	who, err := peer(conn)
	itself := who.PID == c.pid
	if who.PID == 0 { // it is in a pid namespace that is not seen from here
		itself = who.UID == 0 || who.UID == os.Geteuid()
	}
	if err == nil && !itself {
		err = &impostor{c.pid, who}
	}
	if err != nil {
		conn.Close()
		return nil, Daemon{}, err
	}
	return conn, Daemon{c.pid, who.UID}, nil
}

// visit connects to candidates until met wants no more. Those without room for a connection come last, and
// for a while again. It returns the last error.
func visit(all []candidate, met func(*net.UnixConn, Daemon) (goesOn bool)) (last error) {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var full []candidate
		for _, c := range all {
			conn, who, err := c.connect()
			switch {
			case errors.Is(err, syscall.EAGAIN):
				full = append(full, c)
			case err == nil && !met(conn, who):
				return nil
			}
			if err != nil {
				last = err
			}
		}
		if all = full; len(all) == 0 || time.Since(begun) > crowded {
			return last
		}
	}
}

// Find returns the daemons in this network namespace, by their processes.
func Find() (found []Daemon, err error) {
	all, err := candidates()
	if err != nil {
		return nil, err
	}
	visit(all, func(conn *net.UnixConn, who Daemon) bool {
		conn.Close()
		if !slices.Contains(found, who) {
			found = append(found, who)
		}
		return true
	})
	slices.SortFunc(found, func(a, b Daemon) int { return a.PID - b.PID })
	return found, nil
}

// Ask sends a request, such as "upgrade 1m0s", to the daemon with a process number, and waits for its
// answer until timeout is over. A daemon that has not read the request by unread, such as one that is
// stopped, is not waited for any longer. The error is a *Refusal, or says that the daemon does not answer;
// it is os.ErrDeadlineExceeded if a time was over, and the daemon may do what it was asked for later.
func Ask(pid int, request string, unread, timeout time.Duration) (string, error) {
	all, err := candidates()
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.pid != pid })
	var conn *net.UnixConn
	err = visit(all, func(c *net.UnixConn, _ Daemon) bool {
		conn = c
		return false
	})
	if other := (*impostor)(nil); conn == nil && errors.As(err, &other) {
		return "", err
	}
	if conn == nil {
		if err == nil {
			err = syscall.ECONNREFUSED
		}
		return "", fmt.Errorf("process %d is not a daemon that can be upgraded or asked, or does not serve yet: %w",
			pid, err)
	}
	defer conn.Close()
	line, err := exchange(conn, request, unread, timeout)
	if err != nil {
		return "", fmt.Errorf("process %d %w", pid, err)
	}
	word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if word != "done" {
		return "", &Refusal{text}
	}
	return text, nil
}

// exchange sends a request and reads the answer, in the times of Ask. The error's text follows the
// process's name.
func exchange(conn *net.UnixConn, request string, unread, timeout time.Duration) (string, error) {
	begun := time.Now()
	unread = min(unread, timeout)
	conn.SetReadDeadline(begun.Add(unread))
	conn.SetWriteDeadline(begun.Add(timeout))       // there is room in the socket: only what is sent can stay unread
	_, unsent := io.WriteString(conn, request+"\n") // a daemon that refuses a user says so before it reads
	r := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	line, err := r.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if waits(conn) {
			return "", fmt.Errorf("has not read the request for %v: it is stopped, or overloaded, and may do "+
				"what it was asked for when it goes on: %w", unread, err)
		}
		var rest string
		conn.SetDeadline(begun.Add(timeout))
		rest, err = r.ReadString('\n')
		line += rest
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", fmt.Errorf("has read the request, and not answered for %v: %w", timeout, err)
	case err != nil:
		return "", fmt.Errorf("went away in the middle: %w", errors.Join(unsent, err))
	}
	return line, nil
}

// waits reports whether the other end has not read all that was sent to it.
func waits(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	bytes := 0
	closed := raw.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return closed == nil && err == nil && bytes > 0
}
