package windows

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A holderBed is a Holder, its store and its log.
type holderBed struct {
	*Holder
	*fake
	t     *testing.T
	dir   string // of records; empty = none yet
	log   said
	woken atomic.Int64
	away  atomic.Bool // what the program does not know is ready
}

// configure makes settings: of a Holder with "fixed" worker ids, "leasing" ones or "announcing" them, and more words.
func (b *holderBed) configure(kind string, words ...string) (c Config) {
	c = map[string]func() Config{
		"fixed":      func() Config { return fixed(&b.log) },
		"leasing":    func() Config { return leasing(&b.log, b.fake) },
		"announcing": func() Config { return announcing(&b.log, b.fake) },
	}[kind]()
	c.Wake = func() { b.woken.Add(1) }
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		d, _ := time.ParseDuration(value)
		switch name {
		case "ids":
			c.WorkerIDs = nil
			for one := range strings.SplitSeq(value, ",") {
				if v, err := strconv.ParseUint(one, 10, 64); err == nil {
					c.WorkerIDs = append(c.WorkerIDs, v)
				}
			}
		case "layout":
			c.Layout = layouts()[value]
		case "run-ahead":
			c.MaxRunAhead = d
		case "lanes":
			c.Lanes = int(n)
		case "min":
			c.Store.Min = n
		case "max":
			c.Store.Max = n
		case "lease":
			c.Store.Lease = d
		case "watch":
			c.Store.Watch = d
		case "announce":
			c.Announce = value
		case "check":
			c.PeerCheck = value
		case "socket":
			c.Peers.Address = nil
		case "recorded":
			if b.dir == "" {
				b.dir = b.t.TempDir()
			}
			c.StateDir = b.dir
		case "not-ready":
			b.away.Store(true)
			c.Ready = func() error {
				if b.away.Load() {
					return errors.New("the leader is away")
				}
				return nil
			}
		case "address":
			host, port, _ := net.SplitHostPort(value)
			c.Peers.Address = func() (string, int) {
				n, _ := strconv.Atoi(port)
				return host, n
			}
		case "unannounced":
			c.Store.Announces = false
		case "broken":
			c.Store.Open = func(func() int64, string) (workerid.Backend, error) { return nil, errors.New("broken") }
		default:
			b.t.Fatalf("%q: what is that?", word)
		}
	}
	return c
}

// layouts are what Validate judges.
func layouts() map[string]generator.Layout {
	minutes, over, later := generator.Katsubushi(), generator.Katsubushi(), generator.Katsubushi()
	minutes.Name, minutes.Unit = "minutes", 60_000
	over.Epoch -= over.End()
	later.Epoch = 1767225600000 + 100*365*24*3600*1000 + 1
	latest := later
	latest.Epoch--
	return map[string]generator.Layout{"minutes": minutes, "over": over, "later": later, "latest": latest, "": {}}
}

// varying is what is another one each time: names, directories, and what a keeper's random pauses change.
var varying = regexp.MustCompile(`(after=(?:\d+m)?|expired |name=|state_dir=|worker_ids=)[^ "\n]+`)

// laneState is the part of a line about a lease that says what became of it.
var laneState = regexp.MustCompile(`lane=\d state=\w+`)

// besides says what was logged, and whether clients were woken.
func (b *holderBed) besides() string {
	var said, states []string
	if b.woken.Swap(0) > 0 {
		said = append(said, "- all who wait are woken")
	}
	for line := range strings.Lines(b.log.take()) {
		if state := laneState.FindString(line); state != "" {
			states = append(states, "- "+state)
		} else {
			said = append(said, "- "+varying.ReplaceAllString(strings.TrimPrefix(line, "level="), "$1.."))
		}
	}
	slices.Sort(states) // two lanes' may come in either order
	said = append(states, said...)
	return strings.Join(said, "\n")
}

// TestHolder: testdata/holder.txt has what a Holder does of which the store is the script's.
func TestHolder(t *testing.T) {
	steps.Run(t, "testdata/holder.txt", func(t *testing.T) steps.Calls {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		b := &holderBed{t: t, fake: &fake{}}
		return steps.Calls{
			"": func() string { return b.besides() },
			"holder": func(kind string, words ...string) {
				b.Holder = New(b.configure(kind, words...))
				t.Cleanup(func() { b.Stop(true) })
			},
			"open":  func() error { return b.Open() },
			"start": func() { b.Start() },
			"begin": func() error {
				err := b.Open()
				b.Start()
				return err
			},
			"opened":  func() { b.Opened(0) },
			"serving": func() { <-b.Serving() },
			"leave":   func() { <-b.Leave() },
			"quiet":   func(on bool) { b.Quiet(on) },
			"stop":    func(succeeded bool) { b.Stop(succeeded) },
			"sleep":   time.Sleep,
			"store": func(away string) {
				b.fake.set(nil, nil)
				if away != "" {
					b.fake.set(errors.New(away), nil)
				}
			},
			"calls": func() string { // two goroutines make the first ones
				return strings.Replace(b.calls(), "not ready, acquire", "acquire, not ready", 1)
			},
			"mint": func() (string, error) {
				v, err := b.id()
				if err == id.ErrWait {
					return "wait", nil
				} else if err != nil {
					return "", err
				}
				return fmt.Sprint("worker id ", b.c.Layout.Decompose(v).Worker), nil
			},
			"status": func() string { return strings.ReplaceAll(b.Status(), "6, 5", "5, 6") }, // whose answer is first
			"notes":  func() string { return strings.Join(b.Notes(), "\n") },
			"leased": func() bool { return b.Leased() },
			// the last id lies ahead of the clock, further than a state file's window reaches
			"ahead": func(d time.Duration) error {
				now := b.Clock.Now()
				if err := b.Issuer.Publish(0, 1, now, now+window); err != nil {
					return err
				}
				return b.Issuer.Generator(0).Skip(now + d.Milliseconds())
			},
			"stays-ahead": func(d time.Duration) { b.Clock.StaysAhead(d) },
			"valid": func(kind string, words ...string) string {
				c := b.configure(kind, words...)
				list := problem.Of(c.Validate())
				if len(list) == 0 {
					return "valid"
				}
				return list.Err().Error()
			},
			"checks-peers": func(announces, compares bool, mode string) bool {
				c := leasing(&b.log, nil)
				c.Store.Announces, c.Store.Compares, c.PeerCheck = announces, compares, mode
				return c.ChecksPeers()
			},
		}
	})
}
