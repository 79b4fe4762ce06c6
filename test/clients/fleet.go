//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// A fleet is three daemons that lead sequences with order=strict, and the etcd in which they agree.
type fleet struct {
	launcher *launcher
	counters string // -counters of the daemons
	etcd     *childprocess.Child
	daemons  []*daemon
	args     [][]string // of each
}

// strictNames are the sequences with order=strict, all of different groups; "free" is in any order.
var strictNames = []string{"orders", "items", "tickets", "users"}

// errNoEtcd means that there is no etcd here.
var errNoEtcd = errors.New("no etcd")

// startFleet starts etcd and the daemons. It waits until every name is issued.
func (r *runner) startFleet() (*fleet, error) {
	if _, err := r.installer.version(&setup{needs: "apt etcd-server"}); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEtcd, err)
	}
	ports, err := r.launcher.freePorts(8)
	if err != nil {
		return nil, err
	}
	f := &fleet{launcher: &r.launcher, counters: fmt.Sprintf("etcd://%s:%d", host, ports[0])}
	if err := f.startEtcd(filepath.Join(r.work, "etcd"), ports[0], ports[1]); err != nil {
		f.stop()
		return nil, err
	}
	names := "free sequence"
	for _, name := range strictNames {
		names += ";" + name + " sequence order=strict"
	}
	for i := range 3 {
		d := &daemon{kind: fmt.Sprint("fleet", i+1), port: ports[2+i]}
		d.log = filepath.Join(r.work, "daemon"+d.kind+".log")
		os.Remove(d.log)
		args := append([]string{"-worker-id", strconv.Itoa(i + 1), "-claim", "off", "-state-dir", "none", "-bind", host,
			"-port", strconv.Itoa(d.port),
			"-http-port", strconv.Itoa(ports[5+i]), "-counters", f.counters, "-generator", names}, r.launcher.extra...)
		if err := r.launcher.launch(d, args); err != nil {
			f.stop()
			return nil, err
		}
		f.daemons, f.args = append(f.daemons, d), append(f.args, args)
	}
	return f, nil
}

func (f *fleet) startEtcd(dir string, port, peer int) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	url, peers := fmt.Sprintf("http://%s:%d", host, port), fmt.Sprintf("http://%s:%d", host, peer)
	etcd := exec.Command("etcd", "--data-dir", dir, "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers,
		"--logger", "zap", "--log-level", "error")
	var err error
	if f.etcd, err = childprocess.Start(etcd); err != nil {
		return fmt.Errorf("%w: %w", errNoEtcd, err)
	}
	return eventually("etcd is healthy", func() bool {
		answer, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// stop ends all of it and says what did not end well.
func (f *fleet) stop() (failed []error) {
	for _, d := range f.daemons {
		if err := d.stop(); err != nil {
			failed = append(failed, err)
		}
	}
	if f.etcd != nil {
		f.etcd.Kill()
	}
	return failed
}

// restart starts a daemon again that was killed.
func (f *fleet) restart(i int) error { return f.launcher.launch(f.daemons[i], f.args[i]) }

// mend starts the daemons that the last set-up left dead.
func (f *fleet) mend() error {
	for i, d := range f.daemons {
		if d.HasEnded() {
			if err := f.restart(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// addresses are the daemons', with spaces between.
func (f *fleet) addresses() string {
	var all []string
	for _, d := range f.daemons {
		all = append(all, d.address())
	}
	return strings.Join(all, " ")
}

func (d *daemon) address() string { return net.JoinHostPort(host, strconv.Itoa(d.port)) }

// leader returns the daemon that leads a name, -1 = none.
func (f *fleet) leader(name string) int {
	out, _ := exec.Command(f.launcher.program, "generator", "show", name, "-json", "-counters", f.counters).Output()
	for i, d := range f.daemons {
		if strings.Contains(string(out), `"leader":"`+d.address()+`"`) {
			return i
		}
	}
	return -1
}

// demote has all groups handed over.
func (f *fleet) demote(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, f.launcher.program, "demote", "-counters", f.counters, "all").CombinedOutput()
	if err != nil {
		return fmt.Errorf("demote: %w: %s", err, out)
	}
	return nil
}

// served waits until daemons issue every name.
func (f *fleet) served(through *daemon) error {
	for _, name := range strictNames {
		err := eventually(name+" is issued", func() bool {
			answer, err := through.ask("incr " + name + " 1\r\n")
			_, notNumber := strconv.ParseUint(strings.TrimSpace(answer), 10, 64)
			return err == nil && notNumber == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eventually waits for a condition.
func eventually(what string, is func() bool) error {
	for deadline := time.Now().Add(startLimit); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not so within %s: %s", startLimit, what)
		}
	}
	return nil
}
