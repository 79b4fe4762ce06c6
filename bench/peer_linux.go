package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A peer is a server that takes part in a comparison.
type peer struct {
	name   string
	speech string // "memcached" or "redis"
	ours   bool
	// command is the program and its arguments for a listener; nil arguments mean that the server
	// has no such listener. Only ours can be told to declare names.
	command func(at endpoint, names int, dir string) []string
	canned  bool     // answers every read with one id, whatever was asked
	viaGo   bool     // takes part in the modes of the goroutine client
	attach  *process // a server that was there before; command is not used
}

// maxConns is how many connections every server is told to allow.
const maxConns = 12000

func memcachedPeer() peer {
	return peer{name: "memcached", speech: "memcached", command: func(at endpoint, _ int, dir string) []string {
		args := []string{"memcached", "-t", "1", "-U", "0", "-m", "64", "-c", strconv.Itoa(maxConns)}
		if me, err := user.Current(); err == nil {
			args = append(args, "-u", me.Username) // it refuses to be root without being told
		}
		host, port, _ := net.SplitHostPort(at.address)
		switch at.via {
		case overHTTP:
			return nil
		case overUnix:
			return append(args, "-s", at.address)
		case overTLS:
			args = append(args, "-Z", "-o",
				"ssl_chain_cert="+filepath.Join(dir, certFile)+",ssl_key="+filepath.Join(dir, keyFile))
		}
		return append(args, "-l", host, "-p", port)
	}}
}

func redisPeer() peer {
	return peer{name: "redis", speech: "redis", command: func(at endpoint, _ int, dir string) []string {
		args := []string{"redis-server", "--save", "", "--appendonly", "no", "--dir", dir, "--maxclients",
			strconv.Itoa(maxConns)}
		host, port, _ := net.SplitHostPort(at.address)
		switch at.via {
		case overUnix:
			return append(args, "--port", "0", "--unixsocket", at.address)
		case overTLS, overHTTP:
			return nil
		}
		return append(args, "--bind", host, "--port", port)
	}}
}

// oursPeer is the daemon with one engine, under the name that -servers gave it. Every process of it
// gets four worker ids of its own, since one core can issue more than the four million ids a second
// that one worker id has.
func oursPeer(name, binary, engine string, nextWorker func() int) peer {
	return peer{name: "katsubushi " + name, speech: "memcached", ours: true,
		command: func(at endpoint, names int, dir string) []string {
			w := nextWorker()
			args := []string{binary, "-worker-id", fmt.Sprintf("%d-%d", w, w+3), "-engine", engine, "-loops", "1", "-log-level",
				"warn", "-claim", "off"}
			args = append(args, declare(names, filepath.Join(dir, fmt.Sprintf("state-%d", w)))...)
			if at.via == overUnix {
				return append(args, "-sock", at.address)
			}
			host, port, _ := net.SplitHostPort(at.address)
			if at.via == overHTTP {
				return append(args, "-sock", filepath.Join(dir, "beside-http-"+port), "-http-bind", host, "-http-port", port)
			}
			if at.web != "" {
				host, port, _ := net.SplitHostPort(at.web)
				args = append(args, "-http-bind", host, "-http-port", port)
			}
			if at.via == overTLS {
				args = append(args, "-tls-cert", filepath.Join(dir, certFile), "-tls-key", filepath.Join(dir, keyFile))
			}
			return append(args, "-bind", host, "-port", port)
		}}
}

// declare makes the flags for a number of names: the kinds of id, and then as many more. Sequences
// need a directory to be recorded in; without one a daemon forgets everything.
func declare(names int, dir string) []string {
	if names == 0 {
		return []string{"-state-dir", "none"}
	}
	var lines strings.Builder
	for i := range names {
		if i < len(kinds) {
			fmt.Fprintln(&lines, kinds[i][0], kinds[i][1])
		} else {
			fmt.Fprintf(&lines, "name%02d snowflake\n", i)
		}
	}
	file := filepath.Join(dir, "names")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(lines.String()), 0o600)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err) // the daemon will say that it cannot read the file
	}
	return []string{"-state-dir", dir, "-generators", file}
}

// A process is a running server.
type process struct {
	at     endpoint
	pid    int         // 0 if unknown
	trust  *tls.Config // for an endpoint with TLS
	names  []string    // that it declares and that have to be asked for once
	issues bool        // a new id at every get, as opposed to a value that was stored
	beside []*process  // started before it for its sake, and stopped after it
	shares int         // the pid of one of those whose CPU time counts too; 0 = none
	cmd    *exec.Cmd
	ended  chan error
	log    *os.File
}

// start runs a peer's server, pinned to cpu, and waits until it answers.
func (p peer) start(via transport, names, cpu int, dir string, trust *tls.Config) (*process, error) {
	at, err := freeEndpoint(via, dir)
	if err != nil {
		return nil, err
	}
	if names == scrapedNames {
		web, err := freeEndpoint(overTCP, dir)
		if err != nil {
			return nil, err
		}
		at.web = web.address
	}
	argv := p.command(at, names, dir)
	if argv == nil {
		return nil, fmt.Errorf("%s does not listen on %s", p.name, via)
	}
	var ask []string
	if names > 0 {
		for _, k := range kinds {
			ask = append(ask, k[0])
		}
	}
	pr, err := launch(argv, at, cpu, dir)
	if err != nil {
		return nil, err
	}
	pr.trust, pr.names = trust, ask
	if err := pr.awaitReady(p); err != nil {
		return nil, err
	}
	return pr, nil
}

// launch runs a program, pinned to cpu.
func launch(argv []string, at endpoint, cpu int, dir string) (*process, error) {
	log, err := os.CreateTemp(dir, "log")
	if err != nil {
		return nil, err
	}
	pr := &process{at: at, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan error, 1), log: log}
	pr.cmd.Stdout, pr.cmd.Stderr = log, log
	pr.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startPinned(cpu, pr.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %q: %w", argv, err)
	}
	pr.pid = pr.cmd.Process.Pid
	go func() { pr.ended <- pr.cmd.Wait() }()
	return pr, nil
}

// awaitReady asks until the server gives what the benchmark asks for, storing it where the server
// does not make it up. It ends a server that does not.
func (pr *process) awaitReady(p peer) (err error) {
	defer func() {
		if err != nil {
			pr.stop()
			err = fmt.Errorf("start %q: %w; it said: %s", pr.cmd.Args, err, pr.said())
		}
	}()
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := pr.prime(p)
		if err == nil {
			return nil
		}
		select {
		case end := <-pr.ended:
			pr.ended <- end
			return fmt.Errorf("it ended (%v)", end)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends a server that start began.
func (pr *process) stop() {
	if pr.cmd == nil {
		return
	}
	pr.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-pr.ended:
	case <-time.After(10 * time.Second):
		pr.cmd.Process.Kill()
		<-pr.ended
	}
	pr.log.Close()
	for _, b := range pr.beside {
		b.stop()
	}
}

// said is the end of what the server wrote.
func (pr *process) said() string {
	b, err := os.ReadFile(pr.log.Name())
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-2000):])
}

// freeEndpoint finds a port or a path that nobody uses.
func freeEndpoint(via transport, dir string) (endpoint, error) {
	if via == overUnix {
		f, err := os.CreateTemp(dir, "sock")
		if err != nil {
			return endpoint{}, err
		}
		return endpoint{via: via, address: f.Name()}, errors.Join(f.Close(), os.Remove(f.Name()))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{via: via, address: ln.Addr().String()}, ln.Close()
}
