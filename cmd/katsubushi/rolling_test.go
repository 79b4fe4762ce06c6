package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A service does what Kubernetes does with one: it asks every pod for /readyz, and new connections go to
// those that are ready. It learns everything 1 to 2 s late.
type service struct {
	t     *testing.T
	mu    sync.RWMutex // held by whoever connects: a pod that has left the list gets no connection afterwards
	ready []string     // addresses
	left  map[string]time.Time
	over  chan struct{}
	all   sync.WaitGroup
}

// follow keeps a pod on the list while it is ready, until its process has ended.
func (s *service) follow(p *process) {
	asks := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	s.all.Go(func() {
		was := false
		for {
			resp, err := asks.Get("http://" + p.HTTP() + "/readyz")
			is := err == nil && resp.StatusCode == http.StatusOK
			if err == nil {
				resp.Body.Close()
			}
			wait := 100 * time.Millisecond
			if is != was {
				wait = time.Second + rand.N(time.Second)
			}
			select {
			case <-s.over:
				return
			case <-time.After(wait):
			}
			if is != was {
				s.mu.Lock()
				if s.ready = slices.DeleteFunc(s.ready, func(a string) bool { return a == p.Addr() }); is {
					s.ready = append(s.ready, p.Addr())
				} else {
					s.left[p.Addr()] = time.Now()
				}
				s.mu.Unlock()
				was = is
			}
			if !is && p.HasEnded() {
				return
			}
		}
	})
}

// leftAt is when a pod was taken off the list, or the zero time.
func (s *service) leftAt(addr string) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.left[addr]
}

func (s *service) has(addr string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Contains(s.ready, addr)
}

// dial connects to one of the pods, whatever the address: as a ClusterIP does.
func (s *service) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.ready) == 0 {
		return nil, errors.New("no endpoints")
	}
	return new(net.Dialer).DialContext(ctx, network, s.ready[rand.IntN(len(s.ready))])
}

// Watch is the headless service: all pods, looked up every second.
func (s *service) Watch(ctx context.Context, set func([]client.Server)) error {
	for {
		s.mu.RLock()
		list := make([]client.Server, len(s.ready))
		for i, a := range s.ready {
			list[i].Addr = a
		}
		s.mu.RUnlock()
		set(list)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// plainly returns what asks for an id over one connection, without anything that our client knows.
// It connects again after an error, and with again asks once more.
func (s *service) plainly(again bool) func() (uint64, error) {
	var conn net.Conn
	var lines *bufio.Reader
	once := func() (uint64, error) {
		if conn == nil {
			c, err := s.dial(context.Background(), "tcp", "")
			if err != nil {
				return 0, err
			}
			conn, lines = c, bufio.NewReader(c)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, "get id\r\n")
		var answer [3]string
		for i := range answer {
			line, err := lines.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "SERVER_ERROR") {
				conn.Close()
				conn = nil
				return 0, fmt.Errorf("%q, %w", line, err)
			}
			answer[i] = strings.TrimSpace(line)
		}
		return strconv.ParseUint(answer[1], 10, 64)
	}
	return func() (uint64, error) {
		id, err := once()
		if err != nil && again {
			id, err = once()
		}
		return id, err
	}
}

// A crowd asks for ids in one way, and counts.
type crowd struct {
	name   string
	ask    []func() (uint64, error) // one for each goroutine
	failed []error
	asked  int
}

// TestProcessRollingRestart replaces three daemons one by one as a StatefulSet's update does: TERM,
// and when the process has ended another one with the same worker id and volume, at another
// address. (-shutdown-delay must be longer than the service is late, which nobody can promise on a
// busy machine: a run in which the service or this process was later proves nothing.)
func TestProcessRollingRestart(t *testing.T) {
	t.Parallel()
	for delay := 4 * time.Second; ; delay *= 2 {
		crowds, margin := rollOnce(t, delay)
		var failed []error
		for _, c := range crowds[:3] { // all but those that do not ask again
			failed = append(failed, c.failed...)
		}
		if plain := crowds[3]; len(plain.failed) > 3*len(plain.ask) {
			failed = append(failed, fmt.Errorf("of %d connections %d broke", len(plain.ask), len(plain.failed)))
		}
		for _, c := range crowds {
			t.Logf("%s: %d calls, %d failed", c.name, c.asked, len(c.failed))
		}
		switch {
		case len(failed) == 0:
			return
		case margin > time.Second || delay > 30*time.Second:
			t.Fatalf("%d failed, the first: %v; at least %v were left of -shutdown-delay", len(failed), failed[0], margin)
		}
		t.Logf("%d failed, and %v were left of -shutdown-delay: once more", len(failed), margin)
	}
}

// rollOnce returns how the clients fared, and the least time that was left of -shutdown-delay when
// a pod had gone from the service and this process had woken up once more.
func rollOnce(t *testing.T, delay time.Duration) ([]*crowd, time.Duration) {
	s := &service{t: t, left: map[string]time.Time{}, over: make(chan struct{})}
	volumes := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	run := func(n int) *process {
		p := start(t, "-worker-id", strconv.Itoa(n), "-state-dir", volumes[n], "-http-port", freePort(t), "-shutdown-delay",
			delay.String(), "-drain-timeout", "60s")
		s.follow(p)
		await(t, "the service knows the pod", func() bool { return s.has(p.Addr()) })
		return p
	}
	var pods []*process
	for n := range volumes {
		pods = append(pods, run(n))
	}
	crowds, dialled, closeAll := s.clients(t)
	defer closeAll()

	stop := make(chan struct{})
	var mu sync.Mutex
	var seen unique.Set
	var clients sync.WaitGroup
	for _, c := range crowds {
		for _, ask := range c.ask {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
					}
					id, err := ask()
					mu.Lock()
					if c.asked++; err != nil {
						c.failed = append(c.failed, err)
					} else {
						seen.Add(id)
					}
					mu.Unlock()
				}
			})
		}
	}
	late := make(chan time.Duration)
	go func() { // how late is a goroutine that only sleeps?
		var worst time.Duration
		for {
			before := time.Now()
			select {
			case <-stop:
				late <- worst
				return
			case <-time.After(10 * time.Millisecond):
				worst = max(worst, time.Since(before))
			}
		}
	}()
	margin := delay
	for n, old := range pods {
		before := time.Now()
		if err := old.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-old.Ended()
		if code := old.ProcessState.ExitCode(); code != 0 {
			t.Errorf("worker id %d: exit code %d", n, code)
		}
		await(t, "the service knows that the pod has gone", func() bool { return !s.has(old.Addr()) })
		margin = min(margin, delay-s.leftAt(old.Addr()).Sub(before))
		p := run(n)
		await(t, "the Go client has found it", func() bool { return dialled(p.Addr()) })
	}
	close(stop)
	clients.Wait()
	close(s.over)
	s.all.Wait()
	if t.Log(seen.String()); seen.Duplicates() > 0 || seen.Plant() != nil || seen.Len() == 0 {
		t.Error(seen.String())
	}
	return crowds, margin - <-late
}

// clients returns four ways to ask the service, and whether the first one has connected to an address.
func (s *service) clients(t *testing.T) (crowds []*crowd, dialled func(addr string) bool, closeAll func()) {
	t.Helper()
	var reached sync.Map
	patient := client.Config{Timeout: time.Minute, DialTimeout: time.Minute}
	each, one := patient, patient
	each.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			reached.Store(addr, true)
		}
		return conn, err
	}
	one.Dial = s.dial
	headless, err := client.New(s, each)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := client.New(client.Static("10.96.0.17:11212"), one)
	if err != nil {
		t.Fatal(err)
	}
	const people = 4
	for _, c := range []*crowd{{name: "the Go client, headless service"}, {name: "the Go client, ClusterIP"},
		{name: "plain clients that ask again once"}, {name: "plain clients that do not"}} {
		for range people {
			var ask func() (uint64, error)
			switch i := len(crowds); i {
			case 0, 1:
				asked := []*client.Client{headless, cluster}[i]
				ask = func() (uint64, error) {
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
					defer cancel()
					return asked.ID(ctx)
				}
			default:
				ask = s.plainly(i == 2)
			}
			c.ask = append(c.ask, ask)
		}
		crowds = append(crowds, c)
	}
	dialled = func(addr string) bool {
		_, ok := reached.Load(addr)
		return ok
	}
	return crowds, dialled, func() {
		headless.Close()
		cluster.Close()
	}
}
