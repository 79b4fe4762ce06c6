package redis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScripts plays what becomes of sequences while servers come and go. Beside the calls of countertest.Stage:
//
//	server m [durable|WORDS]   a master; durable = whatever it has confirmed is on its disk
//	replica r m [WORDS]        its replica
//	sentinel s m 1             a Sentinel that knows of so many replicas
//	open a m [operator] [replicas=1] [clocked]   a store; clocked = its clock and its server's are the script's
//	clock 5s                   moves that
//	m redis PING               a command; its answer
//	m says FIELD               of INFO
//	m has WORD                 what the record of orders has there
//	m sets items safe false    a word of a record
//	m kills, launches, pauses, resumes
//	a replicas 1               SetReplicas, which returns how many there were
//	a promised                 NotPromised
//	needs 7.2                  skips what that version has made impossible
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/fleet.script", func(t *testing.T, play func(script.Do)) {
		play((&fleet{Stage: countertest.NewStage(t), t: t, servers: map[string]*redistest.Server{},
			now: wallClock()}).do)
	})
}

// A fleet is what a script has begun.
type fleet struct {
	*countertest.Stage
	t       *testing.T
	servers map[string]*redistest.Server
	now     int64
}

func (f *fleet) do(words []string) string {
	said := f.command(words)
	for name, s := range f.servers {
		said = strings.ReplaceAll(said, s.Addr(), name)
	}
	return strings.ReplaceAll(said, redistest.Namespace(f.t), "NS")
}

func (f *fleet) command(words []string) string {
	var args []string
	for _, word := range words[min(2, len(words)):] {
		if word == "durable" {
			args = append(args, durable...)
		} else {
			args = append(args, word)
		}
	}
	switch words[0] {
	case "server":
		f.servers[words[1]] = redistest.Start(f.t, args...)
	case "replica":
		f.servers[words[1]] = f.servers[words[2]].Replica(args[1:]...)
	case "sentinel":
		n, _ := strconv.Atoi(words[3])
		f.servers[words[1]] = redistest.Sentinels(f.t, 1, n, f.servers[words[2]].Addr())[0]
	case "open":
		f.Stores[words[1]] = f.open(words[2:])
	case "clock":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			f.t.Fatal(err)
		}
		f.now += d.Milliseconds()
	case "needs":
		for _, s := range f.servers {
			if s.Info("redis_version") >= words[1] {
				f.t.Skip("does not apply to this version")
			}
		}
	default:
		return f.named(words, args)
	}
	return ""
}

// named is a command of a server or a store.
func (f *fleet) named(words, args []string) string {
	if s := f.servers[words[0]]; s != nil {
		return f.server(s, words[1], args)
	}
	store, ok := f.Stores[words[0]].(*Store)
	switch {
	case ok && words[1] == "replicas":
		n, _ := strconv.Atoi(words[2])
		return countertest.Said(store.SetReplicas(bg, n))
	case ok && words[1] == "promised":
		text, err := store.NotPromised(bg)
		return countertest.Said(text, err)
	}
	return f.Do(words)
}

func (f *fleet) server(s *redistest.Server, what string, args []string) string {
	switch what {
	case "redis":
		var words []any
		for _, word := range args {
			words = append(words, strings.ReplaceAll(word, "NS", redistest.Namespace(f.t)))
		}
		return fmt.Sprint(s.Do(words...))
	case "says":
		return s.Info(args[0])
	case "sets":
		key := redistest.Namespace(f.t) + ":sequences"
		text := fmt.Sprint(s.Do("HGET", key, "="+args[0]))
		old := regexp.MustCompile(" " + args[1] + "=[^ ]*")
		return fmt.Sprint(s.Do("HSET", key, "="+args[0], old.ReplaceAllString(text, " "+args[1]+"="+args[2])))
	case "has":
		text := fmt.Sprint(s.Do("HGET", redistest.Namespace(f.t)+":sequences", "=orders"))
		_, text, _ = strings.Cut(text, " "+args[0]+"=")
		text, _, _ = strings.Cut(text, " ")
		return text
	}
	map[string]func(){"kills": s.Kill, "launches": s.Launch, "pauses": s.Pause, "resumes": s.Resume}[what]()
	return ""
}

// open opens a Store of a server or a Sentinel.
func (f *fleet) open(words []string) *Store {
	url := f.servers[words[0]].URL()
	if f.servers[words[0]].Info("redis_mode") == "sentinel" {
		url = strings.Replace(strings.Replace(url, "redis:", "redis+sentinel:", 1), "/0?", "/main/0?", 1)
	}
	for _, word := range words {
		if strings.HasPrefix(word, "replicas=") {
			url += "&" + word
		}
	}
	s := open(f.t, Config{URL: url, Operator: slices.Contains(words, "operator")})
	if slices.Contains(words, "clocked") {
		s.with(&f.now)
	}
	return s
}
