package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A conn is a connection that is ready for requests. Its fields are guarded by Client.mu, but for what
// belongs to the goroutine that reads or the one that writes.
type conn struct {
	c      *Client
	server *server
	raw    net.Conn // what is closed: closing does not wait, as it does with TLS
	net    net.Conn
	file   syscall.RawConn // nil: what is written may wait
	timer  *time.Timer     // of the oldest request; only while the reader waits, as it slows every switch of goroutines

	flight  []*batch // sent, in order, at most maxFlight
	since   time.Duration
	reading bool // the reader waits
	writing bool // a goroutine writes out; no other may
	dead    bool
	old     bool // it has answered something
	begun   bool // part of an answer has come; the reader's, true only until it is over
	known   bool // it is known whether the server knows the command ids
	noIDs   bool // it does not

	// The writer's.
	out   []byte
	write func(uintptr) bool
	wrote int
	werr  error

	reply reply // the reader's
}

// hasRoom reports whether k may have b as well. As long as it is not known whether the server knows
// ids, there is one request at a time, so that none must be asked for anew behind another.
func (k *conn) hasRoom(b *batch) bool {
	return !k.busy() && (len(k.flight) == 0 || k.known || k.modeOf(b) != byIDs)
}

// busy reports whether k has room for no batch at all.
func (k *conn) busy() bool {
	return k.writing || len(k.flight) == maxFlight || len(k.flight) > 0 && !k.known && k.modeOf(k.flight[0]) == byIDs
}

// modeOf is how a batch is asked for on this connection.
func (k *conn) modeOf(b *batch) mode {
	switch {
	case b.text:
		return byText
	case k.noIDs || k.c.config.GetOnly:
		return byGet
	}
	return byIDs
}

// accept makes a batch the next in flight, and its request what is to be written. c.mu is held.
func (k *conn) accept(b *batch, now time.Duration) {
	if len(k.flight) == 0 {
		k.since = now
		k.remind(now)
	}
	k.flight = append(k.flight, b)
	k.writing = true
	if b.stock != nil {
		b.sent = k.c.config.now()
	}
	k.out = k.out[:0]
	if k.modeOf(b) != byIDs {
		b.n = min(b.n, b.gen.most) // more than most are for the stock only
	}
	if k.modeOf(b) == byIDs {
		k.out = append(strconv.AppendInt(append(k.out, "ids "...), int64(b.n), 10), b.gen.keys[:1+len(b.gen.name)]...)
	} else {
		k.out = append(append(k.out, "get"...), b.gen.keys[:b.n*(1+len(b.gen.name))]...)
	}
	k.out = append(k.out, lineEnd...)
}

// expire gives the connection up if its oldest request has waited for too long.
func (k *conn) expire() {
	c := k.c
	c.mu.Lock()
	now := c.now()
	switch {
	case k.dead || len(k.flight) == 0 || !k.reading:
	case now < k.since+c.config.Timeout:
		k.remind(now)
	default:
		c.lose(k, ErrTimeout)
	}
	c.mu.Unlock()
	c.pump()
}

// remind sets the timer for the oldest request. c.mu is held.
func (k *conn) remind(now time.Duration) {
	if k.reading {
		k.timer.Reset(k.since + k.c.config.Timeout - now)
	}
}

// wait notes that the reader begins to wait, or has waited.
func (k *conn) wait(reading bool) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	switch k.reading = reading; {
	case !reading:
		k.timer.Stop()
	case len(k.flight) > 0 && !k.dead:
		k.remind(k.c.now())
	}
}

// read reads the answers until the connection ends.
func (k *conn) read() {
	c := k.c
	buf, have := make([]byte, 4<<10), 0
	for {
		k.wait(true)
		n, err := k.net.Read(buf[have:])
		k.wait(false)
		have += n
		used, wrong := k.consume(buf[:have])
		if err = cause(wrong, err); err != nil {
			c.mu.Lock()
			c.lose(k, err)
			c.mu.Unlock()
			c.pump()
			return
		}
		have = copy(buf, buf[used:have])
		if have == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// cause is the first of two errors if there is one: it explains the second.
func cause(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// consume reads as many answers as there are in in. The error ends the connection.
func (k *conn) consume(in []byte) (used int, err error) {
	c := k.c
	for used < len(in) {
		if !k.begun {
			c.mu.Lock()
			if k.dead || len(k.flight) == 0 {
				c.mu.Unlock()
				return used, fmt.Errorf("%w: no request asked for it: %.60q", ErrAnswer, in[used:])
			}
			b := k.flight[0]
			k.reply.expect(k.modeOf(b), b.gen.prefix, b.n)
			k.begun = true
			c.mu.Unlock()
		}
		n, done, err := k.reply.feed(in[used:])
		used += n
		switch {
		case errors.Is(err, ErrAnswer):
			return used, err
		case !done && err == nil:
			return used, nil
		}
		if err := k.finish(err); err != nil {
			return used, err
		}
	}
	return used, nil
}

// finish tells the callers of a batch that its answer is complete. It returns an ErrAnswer instead if the
// server has given it before.
func (k *conn) finish(err error) error {
	c := k.c
	c.mu.Lock()
	k.begun = false
	if k.dead {
		c.mu.Unlock()
		return nil
	}
	if err == nil {
		if err := k.reply.repeats(k.server.mark(k.flight[0].gen.name)); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	crowd := 0
	for _, b := range k.flight {
		crowd += b.n
	}
	for _, b := range c.queue {
		crowd += b.n
	}
	if c.share = (crowd + 1) / 2; c.share < minShare {
		c.share = maxBatch
	}
	b := c.answered(k, err)
	c.retire(k)
	attend := !c.attended
	c.attended = true
	c.mu.Unlock()
	if b != nil {
		b.take(&k.reply)
		if b.stock != nil {
			b.stock.add(b)
		}
		b.finish()
	}
	if attend {
		c.attend() // those who have just got their ids come again
	}
	return nil
}

// dial opens a connection to a server in a goroutine of its own. c.mu is held.
func (c *Client) dial(s *server) {
	s.dialing++
	c.work.Go(func() {
		k, err := c.open(s)
		c.mu.Lock()
		s.dialing--
		switch {
		case c.closed && err == nil:
			k.raw.Close()
			err = ErrClosed
		case c.closed:
		case err != nil:
			c.setBack(s, err)
			for _, b := range c.queue {
				b.fail(s, err)
			}
		default:
			s.conns, c.conns[k] = append(s.conns, k), true
			c.retire(k)
			c.config.Logger.Debug("connected to an id server", "server", s.Addr)
		}
		c.mu.Unlock()
		c.pump()
		if err == nil {
			k.read()
		}
	})
}

// open connects, logs in, and waits for a first answer: a server that is frozen accepts connections
// too.
func (c *Client) open(s *server) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.config.DialTimeout,
		fmt.Errorf("%w: not connected after %v", ErrTimeout, c.config.DialTimeout))
	defer cancel()
	if s.TLS == SpeaksTLS && c.config.TLS == nil {
		return nil, errNeedsTLS
	}
	network := "tcp"
	if strings.HasPrefix(s.Addr, "/") {
		network = "unix"
	}
	raw, err := c.config.Dial(ctx, network, s.Addr)
	if err == nil && raw == nil {
		err = errors.New("Config.Dial returned no connection")
	}
	if err != nil {
		return nil, cause(context.Cause(ctx), err)
	}
	k := &conn{c: c, server: s, raw: raw, net: raw}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	if c.config.TLS != nil {
		t := tls.Client(raw, tlsFor(c.config.TLS, s.Server))
		if k.net, err = t, t.HandshakeContext(ctx); err != nil && s.TLS == SpeaksPlain {
			err = fmt.Errorf("it announces that it does not speak TLS, and Config.TLS is set: %w", err)
		}
	}
	if err == nil {
		err = k.greet()
	}
	if !stop() || err != nil {
		raw.Close()
		return nil, cause(context.Cause(ctx), err)
	}
	k.timer = time.AfterFunc(time.Hour, k.expire)
	k.timer.Stop()
	k.prepare()
	return k, nil
}

var errNeedsTLS = errors.New("it announces that it speaks TLS, and Config.TLS is not set")

func tlsFor(config *tls.Config, s Server) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	config = config.Clone()
	if config.ServerName = s.Name; s.Name == "" {
		config.ServerName, _, _ = net.SplitHostPort(s.Addr)
	}
	return config
}

// greet logs in and asks for the version.
func (k *conn) greet() error {
	var out []byte
	user, password := k.c.config.User, k.c.config.Password
	if user != "" {
		out = fmt.Appendf(out, "set login 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user, password)
	}
	if _, err := k.net.Write(append(out, "version\r\n"...)); err != nil {
		return err
	}
	if user != "" {
		switch line, err := k.readLine(); {
		case err != nil:
			return err
		case line != "STORED":
			return fmt.Errorf("%w: login: %s", ErrRefused, line)
		}
	}
	switch line, err := k.readLine(); {
	case err != nil:
		return err
	case !strings.HasPrefix(line, "VERSION"):
		return fmt.Errorf("%w: to version: %s", ErrRefused, line)
	}
	return nil
}

// readLine reads a short line, and no byte after it.
func (k *conn) readLine() (string, error) {
	var line []byte
	for !bytes.HasSuffix(line, lineEnd) {
		if len(line) > 200 {
			return "", fmt.Errorf("%w: a greeting that is too long: %.60q", ErrAnswer, line)
		}
		line = slices.Grow(line, 1)[:len(line)+1]
		if _, err := io.ReadFull(k.net, line[len(line)-1:]); err != nil {
			return "", err
		}
	}
	return string(line[:len(line)-2]), nil
}
