package storefaults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

const asDaemon = "KATSUBUSHI_STOREFAULTS_DAEMON"

// A config is what a daemon's process is told.
type config struct {
	URL   string
	Lease time.Duration
	IDs   uint64
}

// A child is a daemon in a process of its own.
type child struct {
	*childprocess.Child
	stdin io.Writer
	ended chan struct{} // when all that it said was heard
}

func (c *child) say(word string) { fmt.Fprintln(c.stdin, word) }

// Spawn starts a daemon in a process of its own.
func (w *World) Spawn(hosts ...string) *Daemon {
	w.Helper()
	if len(hosts) == 0 {
		hosts = w.Hosts()
	}
	d := w.add(1)
	told, err := json.Marshal(config{w.URL(hosts...), w.terms.Lease, w.terms.Max})
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asDaemon+"="+string(told), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stdout = in
	p, err := childprocess.Start(cmd)
	in.Close()
	if err != nil {
		w.Fatal(err)
	}
	d.child = &child{p, stdin, make(chan struct{})}
	go func() {
		defer close(d.child.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r report
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				w.Errorf("%s says %q", d.name, lines.Text())
				return
			}
			d.hear(r)
		}
		out.Close()
	}()
	w.Cleanup(func() {
		p.Kill()
		<-d.child.ended
	})
	return d
}

// Pause stops the daemon's process.
func (d *Daemon) Pause() { d.child.Pause(d.w.TB) }

// Resume ends a Pause.
func (d *Daemon) Resume() { d.child.Resume(d.w.TB) }

// daemonProcess runs a daemon until it is told to stop, and exits.
func daemonProcess(stores cas.Kind) {
	var c config
	if err := json.Unmarshal([]byte(os.Getenv(asDaemon)), &c); err != nil {
		fail(err)
	}
	s := cas.Settings{URL: c.URL, Terms: terms(c.Lease, c.IDs)}
	s.Boot = boot
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	r, err := run(Kind{Stores: stores}, s, 1, 0, func(r report) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(r); err != nil { // whoever wanted to know is gone
			os.Exit(1)
		}
	})
	if err != nil {
		fail(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		word, n, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "stop":
			r.stop()
			<-r.done
			os.Exit(0)
		case "clock":
			ms, _ := strconv.ParseInt(n, 10, 64)
			r.ahead.Store(ms)
		}
	}
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
