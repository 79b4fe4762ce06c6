package redis

import (
	"fmt"
	"regexp"
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
	opened := func(c Config) *Store { return open(t, c).with(&now, 0, false) }
	key := "answers:sequences"
	record := func() string { return fmt.Sprint(r.Do("HGET", key, "=orders")) }
	put := func(text string) {
		if text == "" {
			r.Do("HDEL", key, "=orders", "={orders}too")
			return
		}
		r.Do("HSET", key, "=orders", text)
	}
	countertest.Answers(t, countertest.Subject{
		Kind: kind, Definition: d, Record: record, Put: put, Words: words,
		Open: func(operator bool) any {
			c := c
			c.Operator = operator
			return opened(c)
		},
		Break: map[string]func(){
			"damaged":             func() { put("1 name=orders start=1") },
			"spoilt":              func() { put("2 name=orders") },
			"copied":              func() { put(strings.Replace(record(), r.Info("run_id"), strings.Repeat("1", 40), 1)) },
			"of another sequence": func() { put(strings.Replace(record(), "name=orders", "name=items", 1)) },
			"empty":               func() { r.Do("HSET", key, "=orders", "") },
		},
		Calls: func() map[string]int {
			calls := map[string]int{}
			for _, m := range commands.FindAllStringSubmatch(fmt.Sprint(r.Do("INFO", "commandstats")), -1) {
				calls[m[1]], _ = strconv.Atoi(m[2])
			}
			return calls
		},
		Down: func() any {
			r.Kill()
			return opened(c)
		},
	})
}
