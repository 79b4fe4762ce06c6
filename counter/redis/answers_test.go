package redis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

var commands = regexp.MustCompile(`cmdstat_(eval|evalsha|wait|waitaof|hdel):calls=(\d+)`)

func TestAnswers(t *testing.T) {
	for kind, replicas := range map[string]int{"redis": 0, "redis-refuse": 0, "redis-replica": 1} {
		t.Run(kind, func(t *testing.T) { answers(t, kind, replicas) })
	}
}

// answers has a server whose clock stands still, and with replicas=1 one that may become the master.
func answers(t *testing.T, kind string, replicas int) {
	args := durable
	if replicas > 0 {
		args = nil
	}
	r := redistest.Start(t, args...)
	words := map[string]string{r.Addr(): "ADDRESS", r.Info("run_id"): "RUN"}
	var replica *redistest.Server
	if replicas > 0 {
		replica = r.Replica()
		words[replica.Addr()] = "REPLICA"
	}
	words[r.Info("master_replid")] = "REPLID"
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	c := Config{URL: fmt.Sprintf("redis://%s/0?ns=answers&replicas=%d", r.Addr(), replicas), anyMax: true,
		now: func() int64 { return now }}
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7,
		RefuseLoss: kind == "redis-refuse"}
	opened := func(c Config) *Store {
		s := open(t, c)
		s.prepare = func(script string, args []string) (string, []string) {
			return fakeServer + script, append(slices.Clone(args), "", strconv.FormatInt(now, 10))
		}
		return s
	}
	key := "answers:sequences"
	record := func() string { return fmt.Sprint(r.Do("HGET", key, "=orders")) }
	put := func(text string) {
		if text == "" {
			r.Do("HDEL", key, "=orders")
			return
		}
		r.Do("HSET", key, "=orders", text)
	}
	both := d
	both.Rate, both.RefuseLoss = 5, true
	calls := map[string]int{}
	countertest.Answers(t, countertest.Subject{
		Kind: kind, Definition: d, Wrong: []counter.Definition{both}, Record: record, Put: put, Words: words,
		Open: func(operator bool) any {
			c := c
			c.Operator = operator
			return opened(c)
		},
		Damage: func() { put("1 name=orders start=1") },
		Spoil:  func() { put("2 name=orders") },
		Bad: map[string]func(){
			"of another sequence": func() { put(strings.Replace(record(), "name=orders", "name=items", 1)) },
			"empty":               func() { r.Do("HSET", key, "=orders", "") },
		},
		Copy: func() { put(strings.Replace(record(), r.Info("run_id"), strings.Repeat("1", 40), 1)) },
		Calls: func() string {
			var list []string
			for _, m := range commands.FindAllStringSubmatch(fmt.Sprint(r.Do("INFO", "commandstats")), -1) {
				n, _ := strconv.Atoi(m[2])
				if n > calls[m[1]] {
					list = append(list, fmt.Sprint(m[1], " ", n-calls[m[1]]))
				}
				calls[m[1]] = n
			}
			slices.Sort(list)
			return strings.Join(list, ", ")
		},
		More: func(say func(string, any, error)) {
			more(t, say, r, replica, c, opened, &now)
		},
		Down: func() any {
			r.Kill()
			return opened(c)
		},
	})
}

// more is what only Redis has: its clock, its replicas, and what it may forget.
func more(t *testing.T, say func(string, any, error), r, replica *redistest.Server, c Config,
	opened func(Config) *Store, now *int64) {
	c.Operator = true
	s := opened(c)
	d := counter.Sequence("more")
	d.Rate = 1
	_, err := s.Define(bg, d)
	say("a sequence with a rate: define", "", err)
	for i := range 2 {
		b, err := s.Reserve(bg, "more", 1000)
		say(fmt.Sprint("a sequence with a rate: reserve ", i), b.Hi, err)
	}
	d.Name, d.Max = "short", 1000
	real := opened(Config{URL: c.URL, Operator: true, now: c.now})
	_, err = real.Define(bg, d)
	say("a short sequence", "", err)
	other := c
	other.URL = strings.Replace(c.URL, "replicas=", "replicas=2", 1)
	_, err = opened(other).Reserve(bg, "more", 1)
	say("another replicas=K", "", err)
	for _, ms := range []int64{-60_000, 60_000} {
		skewed := c
		skewed.now = func() int64 { return *now + ms }
		_, err = opened(skewed).Reserve(bg, "more", 1)
		say(fmt.Sprint("a clock that is away by ", ms), "", err)
	}
	for _, n := range []int{-1, 101, 3} {
		_, err = s.SetReplicas(bg, n)
		say(fmt.Sprint("replicas ", n), "", err)
	}
	if replica != nil {
		c.URL = strings.Replace(c.URL, r.Addr(), replica.Addr(), 1)
		_, err = opened(c).Reserve(bg, "more", 1)
		say("of a replica", "", err)
		replica.Kill()
		r.Until("the replica is gone", func() bool { return r.Info("connected_slaves") == "0" })
	} else {
		r.Do("CONFIG", "SET", "appendonly", "no")
	}
	_, err = s.Raise(bg, "more", 200)
	say("not where a loss cannot take it: raise", "", err)
	_, err = s.Reserve(bg, "more", 1)
	say("not where a loss cannot take it: reserve", "", err)
	text, err := s.NotPromised(bg)
	say("not where a loss cannot take it: not promised", text, err)
	r.Do("HSET", "answers:sequences", "history", "another")
	daemon := opened(Config{URL: strings.Replace(s.c.URL, "ns=answers", "ns=answers", 1), now: c.now, anyMax: true})
	d = counter.Sequence("forgotten")
	_, err = daemon.Define(bg, d)
	say("perhaps forgotten: define by a daemon", "", err)
	_, err = s.Define(bg, d)
	say("perhaps forgotten: define by an operator", "", err)
	_, err = s.Reserve(bg, d.Name, 1)
	say("perhaps forgotten: reserve", "", err)
	_, err = s.Show(bg, d.Name)
	say("perhaps forgotten: show", "", err)
	c.URL = strings.Replace(s.c.URL, "ns=answers", "ns=early", 1)
	operator := opened(c)
	c.Operator = false
	early := opened(c)
	_, err = early.Define(bg, d)
	say("an empty namespace: define by a daemon", "", err)
	_, _, err = early.Changes(bg, "")
	say("an empty namespace: what a daemon begins that asks for changes", r.Do("HLEN", "early:sequences"), err)
	_, err = operator.Define(bg, d)
	say("an empty namespace: define by an operator", "", err)
	_, err = early.Reserve(bg, d.Name, 1)
	say("an empty namespace: reserve by that daemon", "", err)
	_, err = operator.Raise(bg, d.Name, 5)
	say("an empty namespace: raise", "", err)
	_, err = early.Reserve(bg, d.Name, 1)
	say("an empty namespace: reserve after that", "", err)
	r.Do("HSET", "early:sequences", "daemon:old", "1000 host/1 ")
	_, err = operator.Behind(bg)
	say("the note of a daemon that was silent for a day", r.Do("HEXISTS", "early:sequences", "daemon:old"), err)
}
