package upgrade

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A daemon listens on an abstract unix socket that is named after its process, so that `katsubushi
// upgrade` finds it without a file: in the same network namespace. Only its own user and root are
// answered.

const controlName = "katsubushi/control/"

// A Control is where a daemon is asked for an upgrade.
type Control struct{ ln *net.UnixListener }

// Listen opens the Control of this process.
func Listen() (*Control, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + controlName + strconv.Itoa(os.Getpid()), Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Control{ln}, nil
}

// Close ends Serve.
func (c *Control) Close() error { return c.ln.Close() }

// askTimeout is how long a client may take to say what it wants.
const askTimeout = 5 * time.Second

// Serve answers until Close. upgrade is called with the time that the new process may take. It
// calls reply once, with what happened, before it returns.
func (c *Control) Serve(upgrade func(timeout time.Duration, reply func(string, error))) {
	for {
		conn, err := c.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is left, for example
			time.Sleep(time.Second)
			continue
		}
		go serveOne(conn, upgrade)
	}
}

func serveOne(conn *net.UnixConn, upgrade func(time.Duration, func(string, error))) {
	defer conn.Close()
	reply := func(text string, err error) {
		word := "done"
		if err != nil {
			word, text = "refused", strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		conn.SetDeadline(time.Now().Add(askTimeout))
		fmt.Fprintf(conn, "%s %s\n", word, text)
	}
	conn.SetDeadline(time.Now().Add(askTimeout))
	line, err := bufio.NewReaderSize(conn, 128).ReadSlice('\n')
	if err != nil {
		return
	}
	// not before: who is refused while it writes reads nothing but "broken pipe"
	uid, _, err := peer(conn)
	if err != nil || uid != 0 && uid != os.Geteuid() {
		reply("", fmt.Errorf("only root and the user of the daemon may ask for an upgrade: its user id is %d, yours %d",
			os.Geteuid(), uid))
		return
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "upgrade ")
	timeout, err := time.ParseDuration(text)
	if !ok || err != nil || timeout <= 0 {
		reply("", fmt.Errorf("%q is not understood: upgrade TIMEOUT is", strings.TrimSpace(string(line))))
		return
	}
	upgrade(timeout, reply)
}

// peer returns user and process of the other end.
func peer(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return -1, 0, e
	}
	if err != nil {
		return -1, 0, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Uid), int(cred.Pid), nil
}

var controls = regexp.MustCompile(`@` + controlName + `(\d+)\n`)

// Find returns the processes of the daemons in this network namespace.
func Find() (pids []int, err error) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	for _, m := range controls.FindAllStringSubmatch(string(list), -1) {
		if pid, err := strconv.Atoi(m[1]); err == nil && !slices.Contains(pids, pid) { // a connection has the name too
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Ask asks a daemon for an upgrade, and waits until it is over. The error is the daemon's reason not to,
// or says that it does not answer.
func Ask(pid int, timeout time.Duration) (string, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + controlName + strconv.Itoa(pid), Net: "unix"})
	if err != nil {
		return "", fmt.Errorf("process %d is no daemon that can be upgraded, or does not serve yet: %w", pid, err)
	}
	defer c.Close()
	if uid, who, err := peer(c); err != nil || who != pid && who != 0 || uid != 0 && os.Geteuid() != 0 && uid != os.Geteuid() {
		return "", fmt.Errorf("process %d does not answer for itself: process %d of user %d does", pid, who, uid)
	}
	c.SetDeadline(time.Now().Add(timeout + time.Minute))
	if _, err := fmt.Fprintf(c, "upgrade %v\n", timeout); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("process %d went away in the middle: %w", pid, err)
	}
	word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if word != "done" {
		return "", fmt.Errorf("refused, and process %d goes on: %s", pid, text)
	}
	return text, nil
}
