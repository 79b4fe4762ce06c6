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
	maxWord    = 64          // bytes of a version or an address
)

// An Asker asks a daemon for its statistics.
type Asker struct {
	Now func() int64 // the id clock, Unix ms
	// Login returns a user and the password; nil = there is none. It is asked for only when a peer
	// wants a login.
	Login func() (user, password string, err error)
	// Secret: the login is sent over TLS only. Near: or to this host; others may write addresses into the store.
	Secret, Near bool
	TLS          func() (*tls.Config, error) // for peers that encrypt; the name of the host is added
}

// A Reply is what a peer says of itself. What it did not say is zero.
type Reply struct {
	// its clock minus this daemon's; exact to half a second and half of the time that the answer took
	Ahead       time.Duration
	Workers     []uint64 // whose leases it holds
	Fingerprint string

	Version string         // printable ASCII without spaces
	Ready   *bool          // it issues ids
	Up      time.Duration  // since its start
	Left    *time.Duration // of its shortest window that has an end
	Groups  *int           // of sequences in strict order that it leads
	// HTTPBind and HTTPPort are where its status page is: an address or NULL, which is all. Empty = not known.
	HTTPBind string
	HTTPPort int
}

var (
	errNoLogin    = errors.New("it wants a login: -forward-user says which")
	errPlain      = errors.New("it wants a login and does not encrypt: no password is sent")
	errNoPassword = errors.New("it wants a login")
	errRefused    = errors.New("login refused")
	errNoTime     = errors.New("its statistics have no time")
	errTooLong    = fmt.Errorf("its answer is longer than %d bytes, or a line than %d", maxAnswer, maxLine)
	errNotStats   = errors.New("it does not answer as a memcached server does")
)

// Trouble says in words of our own why a peer could not be asked. Unlike the error, it has no users and no texts of
// the peer.
func Trouble(err error) string {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errNoLogin) || errors.Is(err, errPlain) || errors.Is(err, errNoPassword):
		return "wants a login"
	case errors.Is(err, errRefused):
		return "login refused"
	case errors.Is(err, errNoTime) || errors.Is(err, errTooLong) || errors.Is(err, errNotStats) ||
		errors.Is(err, io.ErrUnexpectedEOF):
		return "strange answer"
	case errors.As(err, &certificate):
		return "certificate not trusted"
	}
	return "no answer"
}

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
		if err := a.logIn(conn, in, a.safe(conn, encrypted)); err != nil {
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

// safe reports whether the password may be sent. The other end is on this host if both ends have one address.
func (a *Asker) safe(conn net.Conn, encrypted bool) bool {
	if encrypted || a.Secret || !a.Near {
		return encrypted || !a.Secret
	}
	from, ok1 := conn.LocalAddr().(*net.TCPAddr)
	to, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	return ok1 && ok2 && to.IP.Equal(from.IP)
}

// logIn is memcached's text login. safe: the password may be sent.
func (a *Asker) logIn(conn io.Writer, in *bufio.Reader, safe bool) error {
	switch {
	case a.Login == nil:
		return errNoLogin
	case !safe:
		return errPlain
	}
	user, password, err := a.Login()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoPassword, err)
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
		return fmt.Errorf("user %s: %.100q: %w", user, line, errRefused)
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
	r := Reply{
		Ahead: milliseconds(seconds*1000 + 500 - (sent+arrived)/2), Workers: workersOf(general),
		Fingerprint: settings["lease_fingerprint"], Version: word(general["version"]), Left: leftOf(general),
		HTTPBind: word(settings["http_bind"]),
	}
	r.describe(general, settings)
	return r, nil
}

// describe adds what is a number. One that cannot be true was not said.
func (r *Reply) describe(general, settings map[string]string) {
	if ready, err := strconv.ParseBool(general["ready"]); err == nil {
		r.Ready = &ready
	}
	if n, err := strconv.ParseInt(general["uptime"], 10, 64); err == nil && n > 0 && n <= century/1000 {
		r.Up = time.Duration(n) * time.Second
	}
	if n, err := strconv.Atoi(general["leader_groups"]); err == nil && n >= 0 && n <= maxGroups {
		r.Groups = &n
	}
	if n, err := strconv.ParseUint(settings["http_port"], 10, 16); err == nil {
		r.HTTPPort = int(n)
	}
}

const (
	maxSeconds = 253402300799                    // the end of the year 9999
	century    = 100 * 365 * 24 * 60 * 60 * 1000 // ms
	maxGroups  = 1024                            // more than there are
)

// milliseconds returns at most a century either way: a Duration has room for 292 years.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, -century), century)) * time.Millisecond
}

// word returns a value of a peer if it may be shown anywhere as it is, and else nothing.
func word(s string) string {
	if len(s) > maxWord || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return ""
	}
	return s
}

// leftOf returns how long the shortest window still is, or nil if none has an end.
func leftOf(stats map[string]string) (least *time.Duration) {
	for lane := range announcement.MaxWorkers {
		n, err := strconv.ParseInt(stats["lane_"+strconv.Itoa(lane)+"_window_left_ms"], 10, 64)
		if left := milliseconds(n); err == nil && (least == nil || left < *least) {
			least = &left
		}
	}
	return least
}

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
		switch name {
		case "time", "version", "uptime", "ready", "leader_groups", "lease_fingerprint", "http_bind", "http_port":
			found[name] = value
		default:
			if strings.HasPrefix(name, "lane_") {
				found[name] = value
			}
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
