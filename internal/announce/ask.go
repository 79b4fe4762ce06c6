package announce

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
)

// Limits of what a peer may cost.
const (
	askTimeout = time.Second // from dialing to the last line
	maxLine    = 4 << 10     // bytes
	maxAnswer  = 256 << 10   // bytes of all lines together
)

// An Asker asks a daemon for its statistics.
type Asker struct {
	Now func() int64 // the id clock, Unix ms
	// Login returns a user and the password; nil = there is none. It is asked for only when a peer
	// wants a login.
	Login func() (user, password string, err error)
	// Secret: the login is sent over TLS only.
	Secret bool
	TLS    func() (*tls.Config, error) // for peers that encrypt; the name of the host is added
}

// A Reply is what a peer says of itself. What it did not say is zero.
type Reply struct {
	// its clock minus this daemon's; exact to half a second and half of the time that the answer took
	Ahead       time.Duration
	Workers     []uint64 // whose leases it holds
	Fingerprint string
}

var (
	errNoLogin  = errors.New("it wants a login: -forward-user says which")
	errPlain    = errors.New("it wants a login and does not encrypt, as this daemon does: no password is sent")
	errNoTime   = errors.New("its statistics have no time")
	errTooLong  = fmt.Errorf("its answer is longer than %d bytes, or a line than %d", maxAnswer, maxLine)
	errNotStats = errors.New("it does not answer as a memcached server does")
)

// Ask asks the daemon at an address, within askTimeout.
func (a *Asker) Ask(ctx context.Context, address string, encrypted bool) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return a.ask(ctx, address, encrypted)
}

// ask is Ask for as long as ctx says.
func (a *Asker) ask(ctx context.Context, address string, encrypted bool) (Reply, error) {
	conn, err := a.dial(ctx, address, encrypted)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	in := input(conn)
	r, err := a.stats(conn, in)
	if errors.Is(err, errNoLogin) {
		if err := a.logIn(conn, in, encrypted); err != nil {
			return Reply{}, err
		}
		r, err = a.stats(conn, in)
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("no whole answer within %v", askTimeout)
	}
	return r, err
}

// input reads at most maxAnswer bytes.
func input(from io.Reader) *bufio.Reader {
	return bufio.NewReaderSize(io.LimitReader(from, maxAnswer), maxLine)
}

func (a *Asker) dial(ctx context.Context, address string, encrypted bool) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil || !encrypted {
		return conn, err
	}
	settings, err := a.TLS()
	if err == nil {
		settings = settings.Clone()
		settings.ServerName, _, _ = net.SplitHostPort(address)
		c := tls.Client(conn, settings)
		if err = c.HandshakeContext(ctx); err == nil {
			return c, nil
		}
	}
	conn.Close()
	return nil, err
}

// logIn is memcached's text login.
func (a *Asker) logIn(conn io.Writer, in *bufio.Reader, encrypted bool) error {
	switch {
	case a.Login == nil:
		return errNoLogin
	case a.Secret && !encrypted:
		return errPlain
	}
	user, password, err := a.Login()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "set login 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user,
		password); err != nil {
		return err
	}
	line, err := readLine(in)
	if err != nil {
		return err
	}
	if line != "STORED" {
		return fmt.Errorf("user %s: %.100q", user, line)
	}
	return nil
}

// stats asks for two groups at once, and reads both. If the peer wants a login, it has refused both.
func (a *Asker) stats(conn io.Writer, in *bufio.Reader) (Reply, error) {
	sent := a.Now()
	if _, err := io.WriteString(conn, "stats\r\nstats settings\r\n"); err != nil {
		return Reply{}, err
	}
	general, err := readStats(in)
	if errors.Is(err, errNoLogin) {
		if _, err := readStats(in); err != nil && !errors.Is(err, errNoLogin) {
			return Reply{}, err
		}
	}
	if err != nil {
		return Reply{}, err
	}
	arrived := a.Now()
	settings, err := readStats(in)
	if err != nil {
		return Reply{}, err
	}
	seconds, err := strconv.ParseInt(general["time"], 10, 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return Reply{}, errNoTime
	}
	ahead := min(max(seconds*1000+500-(sent+arrived)/2, -century), century) // a Duration has room for 292 years
	return Reply{
		Ahead: time.Duration(ahead) * time.Millisecond, Workers: workersOf(general),
		Fingerprint: settings["lease_fingerprint"],
	}, nil
}

const (
	maxSeconds = 253402300799                    // the end of the year 9999
	century    = 100 * 365 * 24 * 60 * 60 * 1000 // ms
)

// workersOf returns the worker ids whose leases a daemon holds. While a lane drains, its lease is lost.
func workersOf(stats map[string]string) (list []uint64) {
	for lane := range announcement.MaxWorkers {
		prefix := "lane_" + strconv.Itoa(lane) + "_"
		id, err := strconv.ParseUint(stats[prefix+"worker_id"], 10, 64)
		if err == nil && stats[prefix+"state"] != "draining" {
			list = append(list, id)
		}
	}
	return list
}

// readStats reads a group of statistics. Only the names that count are kept.
func readStats(in *bufio.Reader) (map[string]string, error) {
	found := map[string]string{}
	for {
		line, err := readLine(in)
		if err != nil {
			return nil, err
		}
		switch {
		case line == "END":
			return found, nil
		case strings.HasPrefix(line, "CLIENT_ERROR unauthenticated"):
			return nil, errNoLogin
		case !strings.HasPrefix(line, "STAT "):
			return nil, errNotStats
		}
		name, value, _ := strings.Cut(line[len("STAT "):], " ")
		if name == "time" || name == "lease_fingerprint" || strings.HasPrefix(name, "lane_") {
			found[name] = value
		}
	}
}

// readLine reads a line of at most maxLine bytes.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errTooLong
	case errors.Is(err, io.EOF):
		return "", io.ErrUnexpectedEOF
	case err != nil:
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
