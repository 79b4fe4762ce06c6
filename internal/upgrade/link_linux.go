package upgrade

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Link is one end of the socket pair. One goroutine may send while another one receives.
type Link struct {
	conn *net.UnixConn
	from int // messages of other processes are errors; 0 = of none
}

// A strangerError means that another process than Link.from has sent a message.
type strangerError struct{ sender, from int }

func (e *strangerError) Error() string {
	return fmt.Sprintf("the new program is a wrapper: process %d answers, and not process %d that was started: "+
		"a shell script must exec the program", e.sender, e.from)
}

const header = 8 // the length of the JSON text, then how many descriptors there are

// newLink takes a socket over and closes f.
func newLink(f *os.File) (*Link, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("upgrade: descriptor %d is not a unix socket", f.Fd()), c.Close())
	}
	return &Link{conn: u}, nil
}

// pair returns a Link and the socket for the other process.
func pair() (*Link, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	other := os.NewFile(uintptr(fds[1]), "upgrade")
	// before the other process has its end: messages from then on say who has sent them
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		unix.Close(fds[0])
		return nil, nil, errors.Join(os.NewSyscallError("setsockopt", err), other.Close())
	}
	l, err := newLink(os.NewFile(uintptr(fds[0]), "upgrade"))
	if err != nil {
		return nil, nil, errors.Join(err, other.Close())
	}
	return l, other, nil
}

// Close ends the Link.
func (l *Link) Close() error { return l.conn.Close() }

// Deadline limits all calls from now on; the zero time does not.
func (l *Link) Deadline(t time.Time) { l.conn.SetDeadline(t) }

// Send sends a message with at most MaxDescriptors descriptors, which stay open here. The error is
// io.EOF if the other process has ended.
func (l *Link) Send(m Message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var head [header]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(text)))
	binary.BigEndian.PutUint32(head[4:], uint32(len(fds)))
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = l.conn.WriteMsgUnix(head[:], rights, nil)
	if err == nil {
		_, err = l.conn.Write(text)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return io.EOF
	}
	return err
}

// Receive waits for the next message. The caller owns its descriptors, which no child inherits. The
// error is io.EOF if the other process has ended.
func (l *Link) Receive() (m Message, fds []int, err error) {
	defer func() {
		if err != nil {
			CloseAll(fds)
			fds = nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			err = io.EOF
		}
	}()
	var head [header]byte
	oob := make([]byte, unix.CmsgSpace(4*MaxDescriptors)+unix.CmsgSpace(unix.SizeofUcred))
	for got := 0; got < header; {
		n, oobn, _, _, err := l.conn.ReadMsgUnix(head[got:], oob)
		if err != nil {
			return m, fds, err
		}
		more, sender, err := ancillary(oob[:oobn])
		fds = append(fds, more...)
		if err != nil {
			return m, fds, err
		}
		if n == 0 {
			return m, fds, io.EOF
		}
		if l.from != 0 && sender != l.from {
			return m, fds, &strangerError{sender, l.from}
		}
		got += n
	}
	size, count := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if size > maxMessage || int(count) != len(fds) {
		return m, fds, fmt.Errorf("%w: %d bytes, %d descriptors announced, %d received", ErrBroken, size, count, len(fds))
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(l.conn, text); err != nil {
		return m, fds, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fds, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return m, fds, nil
}

// ancillary takes descriptors and the number of the sending process out of a control message. That is 0 if
// nobody asked for it.
func ancillary(oob []byte) (fds []int, sender int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, 0, os.NewSyscallError("recvmsg", err)
	}
	for i := range messages {
		if messages[i].Header.Type == unix.SCM_CREDENTIALS {
			cred, err := unix.ParseUnixCredentials(&messages[i])
			if err != nil {
				return fds, 0, err
			}
			sender = int(cred.Pid)
			continue
		}
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, 0, err
		}
		fds = append(fds, got...)
	}
	return fds, sender, nil // package net asks for MSG_CMSG_CLOEXEC
}

// alone reports whether no process has the other end any more.
func (l *Link) alone() bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return true
	}
	poll := []unix.PollFd{{}}
	err = raw.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		unix.Poll(poll, 0)
	})
	return err != nil || poll[0].Revents&unix.POLLHUP != 0
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// variable names the descriptor of the new process's end of the socket pair; the one behind it is
// where its errors go once it serves.
const variable = "KATSUBUSHI_UPGRADE"

// An Origin is the process whose successor this one is to become.
type Origin struct {
	*Link
	stderr int
}

// FromEnvironment returns the process that has started this one as its successor, or nil. It takes
// what says so out of the environment, so that children do not see it.
func FromEnvironment() (*Origin, error) {
	value, set := os.LookupEnv(variable)
	if !set {
		return nil, nil
	}
	os.Unsetenv(variable)
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%s: only a daemon that is being upgraded sets it", variable, value)
	}
	syscall.CloseOnExec(fd)
	syscall.CloseOnExec(fd + 1)
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_UNIX {
		return nil, fmt.Errorf("%s=%s: no daemon has passed that: only a daemon that is being upgraded sets it",
			variable, value)
	}
	l, err := newLink(os.NewFile(uintptr(fd), "upgrade"))
	if err != nil {
		return nil, err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // the old process reads our stderr, and may die
	return &Origin{l, fd + 1}, nil
}

// Detach sends what this process writes to stderr straight to where the old process's went. Until
// then the old one reads it.
func (o *Origin) Detach() error {
	if o.stderr < 0 {
		return nil
	}
	err := unix.Dup3(o.stderr, 2, 0)
	unix.Close(o.stderr)
	o.stderr = -1
	return os.NewSyscallError("dup3", err)
}
