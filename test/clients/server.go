//go:build linux

package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

const (
	host       = "127.0.0.1"
	username   = "ids"
	password   = "only-for-tests"
	startLimit = time.Minute
	stopLimit  = time.Minute
)

// A daemon is a running katsubushi.
type daemon struct {
	kind   string // "" for the usual one, auth, cluster, fleet1 to fleet3, grpc, sequence, tls, udp or unix
	port   int
	second int    // of kind sequence: -redis-port; of kind grpc: -grpc-port
	socket string // of kind unix
	cert   string // of kind tls: the certificate, which is its own authority
	log    string // where its output goes
	*childprocess.Child
}

// A launcher starts the servers that set-ups ask for, one of each kind, and stops them all.
type launcher struct {
	program string
	extra   []string // further arguments, from KATSUBUSHI_ARGS
	work    string
	running map[string]*daemon
	failed  map[string]error // kinds that did not start
	taken   []func()         // release the ports
}

// get returns the running daemon of a kind, starting it if need be.
func (l *launcher) get(kind string) (*daemon, error) {
	if d, ok := l.running[kind]; ok {
		return d, nil
	}
	if err, ok := l.failed[kind]; ok {
		return nil, err
	}
	d, err := l.start(kind)
	if err != nil {
		l.failed[kind] = err
		return nil, err
	}
	l.running[kind] = d
	return d, nil
}

func (l *launcher) start(kind string) (*daemon, error) {
	ports, err := l.freePorts(3)
	if err != nil {
		return nil, err
	}
	d := &daemon{kind: kind, port: ports[0], second: ports[2]}
	d.log = filepath.Join(l.work, "daemon"+kind+".log")
	os.Remove(d.log)
	d.socket = filepath.Join(l.work, "ids.sock")
	d.cert = filepath.Join(l.work, "certificate.pem")
	args, err := l.arguments(d, ports[1])
	if err != nil {
		return nil, err
	}
	return d, l.launch(d, args)
}

// launch starts a server that has its ports, or starts it again, and waits until it answers.
func (l *launcher) launch(d *daemon, args []string) error {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(l.program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if d.Child, err = childprocess.Start(cmd); err != nil {
		return err
	}
	if err := d.ready(); err != nil {
		d.stop()
		return fmt.Errorf("%s %s: %w\n%s", l.program, strings.Join(args, " "), err, tail(d.log, 10))
	}
	return nil
}

// stop ends all servers and says which did not end well.
func (l *launcher) stop() (failed []error) {
	for _, d := range l.running {
		if err := d.stop(); err != nil {
			failed = append(failed, err)
		}
	}
	for _, release := range l.taken {
		release()
	}
	l.taken = nil
	return failed
}

func (l *launcher) arguments(d *daemon, httpPort int) ([]string, error) {
	// No claim: daemons of several kinds run beside each other, and all have the worker id that is
	// checked.
	args := append([]string{"-worker-id", strconv.Itoa(wantWorker), "-claim", "off", "-state-dir", "none", "-bind", host,
		"-port", strconv.Itoa(d.port), "-http-port", strconv.Itoa(httpPort)}, l.extra...)
	switch d.kind {
	case "unix":
		args = append(args, "-sock", d.socket)
	case "sequence":
		dir := filepath.Join(l.work, "state")
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		args = append(args, "-state-dir", dir, "-generator", "orders sequence", "-redis-port", strconv.Itoa(d.second))
	case "grpc":
		args = append(args, "-grpc-port", strconv.Itoa(d.second))
	case "udp":
		args = append(args, "-udp-port", strconv.Itoa(d.port))
	case "tls":
		if _, err := selfsigned.Write(d.cert, d.cert+".key", time.Now().UnixNano()); err != nil {
			return nil, err
		}
		// the only one that encrypts
		args = append(args, "-tls-cert", d.cert, "-tls-key", d.cert+".key", "-engine", "auto")
	case "auth":
		file := filepath.Join(l.work, "auth")
		if err := os.WriteFile(file, []byte(username+":"+password+"\n"), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-auth-file", file)
	}
	return args, nil
}

// ready waits until the server answers.
func (d *daemon) ready() error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if d.HasEnded() {
			return fmt.Errorf("exited at once: %v", d.ProcessState)
		}
		answer, err := d.ask("version\r\n")
		if err == nil && (strings.HasPrefix(answer, "VERSION ") || d.kind == "auth") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("did not answer within %s: %q, %w", startLimit, answer, err)
		}
	}
}

func (d *daemon) dial() (net.Conn, error) {
	if d.kind == "unix" {
		return net.DialTimeout("unix", d.socket, time.Second)
	}
	address := net.JoinHostPort(host, strconv.Itoa(d.port))
	if d.kind == "tls" {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
		return dialer.Dial("tcp", address)
	}
	return net.DialTimeout("tcp", address, time.Second)
}

// ask sends a command and returns the first line of the answer.
func (d *daemon) ask(command string) (string, error) {
	c, err := d.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(command)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// stop ends the server as an operator would, and reports a server that does not end well.
func (d *daemon) stop() error {
	code, err := d.End(syscall.SIGTERM, stopLimit)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	if err != nil {
		return fmt.Errorf("the daemon did not end well: %w\n%s", err, tail(d.log, 10))
	}
	return nil
}

// freePorts returns n loopback ports that nobody else gets until stop.
func (l *launcher) freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		port, release, err := childprocess.TakePort()
		if err != nil {
			return nil, err
		}
		ports, l.taken = append(ports, port), append(l.taken, release)
	}
	return ports, nil
}

// tail returns the last lines of a file.
func tail(file string, lines int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
