//go:build chaos && linux

package chaos

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A setting is the Redis of a run.
type setting struct {
	name     string
	replicas int  // of the master, watched by three Sentinels; 0: one server, alone
	confirm  int  // -redis-replicas
	keeps    bool // every write is synced to disk; else a restart forgets everything

	kind    string // ZooKeeper or etcd instead; empty: Redis
	size    int    // of these
	forgets bool   // they are restored and wiped; then all clocks are right, which the promise wants
}

// settings are the worlds in which docs/REDIS.md, ZOOKEEPER.md and ETCD.md promise that no id comes
// twice. The seed picks one. Where no acknowledged write is ever forgotten, the promise holds for
// any clocks and for two masters at once, so both are let happen there; elsewhere neither is.
var settings = []setting{
	{name: "one Redis that forgets everything at a restart"},
	{name: "one Redis that syncs every write", keeps: true},
	{name: "a master, 2 replicas and 3 Sentinels; -redis-replicas 0; a server forgets everything at a restart",
		replicas: 2},
	{name: "a master, 1 replica and 3 Sentinels; -redis-replicas 1; every write is synced", replicas: 1, confirm: 1,
		keeps: true},
	{name: "a master, 2 replicas and 3 Sentinels; -redis-replicas 2; every write is synced", replicas: 2, confirm: 2,
		keeps: true},
	{name: "3 members of etcd", kind: "etcd", size: 3},
	{name: "one etcd that is restored and wiped", kind: "etcd", size: 1, forgets: true},
	{name: "3 servers of ZooKeeper", kind: "ZooKeeper", size: 3},
	{name: "one ZooKeeper that is restored and wiped", kind: "ZooKeeper", size: 1, forgets: true},
}

// fenced says that a master is cut off from all daemons before they reach the next one.
func (s setting) fenced() bool { return s.replicas > 0 && s.confirm == 0 }

// A set is a master, its replicas, and the Sentinels that watch them.
type set struct {
	setting
	t         testing.TB
	servers   []*redistest.Server
	sentinels []*redistest.Server
	master    *redistest.Server // that the Sentinels agreed on last
	killed    *redistest.Server // dead, or nil
	failovers int
}

func newSet(t testing.TB, of setting) *set {
	s := &set{setting: of, t: t}
	for range 1 + of.replicas {
		// What a fault sets and a Sentinel writes down is over at a restart.
		args := []string{"--maxmemory", "0", "--min-replicas-to-write", "0", "--lua-time-limit", "100"}
		if of.keeps {
			args = append(args, "--appendonly", "yes", "--appendfsync", "always")
		}
		server := redistest.StartClocked(t, args...)
		server.Do(daemonUser()...)
		server.Do("CONFIG", "REWRITE")
		s.servers = append(s.servers, server)
	}
	s.master = s.servers[0]
	for _, r := range s.servers[1:] {
		r.Demote(s.master)
		r.Do("CONFIG", "REWRITE")
	}
	if of.replicas > 0 {
		s.sentinels = redistest.Sentinels(t, 3, of.replicas, s.master.Addr())
	}
	return s
}

// daemonUser makes the user that docs/REDIS.md gives to daemons: they may do nothing else, and are
// told from replicas and Sentinels.
func daemonUser() (args []any) {
	for _, a := range strings.Fields("ACL SETUSER katsubushi on >secret ~chaos:* +evalsha +eval +info +time +wait " +
		"+exists +hget +hset +hsetnx +hmget " +
		"+hgetall +hdel +hexists +hincrby +zadd +zrem +zscore +zrange +zrangebyscore +client|id +hello +select +ping") {
		args = append(args, a)
	}
	return args
}

// rest is everybody but the master.
func (s *set) rest() []*redistest.Server {
	return slices.DeleteFunc(slices.Clone(s.servers), func(r *redistest.Server) bool { return r == s.master })
}

// url is what daemons are told: where the servers are, or the Sentinels that know the master.
func (s *set) url(addresses []string) string {
	if s.replicas == 0 {
		return "redis://katsubushi:secret@" + addresses[0] + "/0?ns=chaos"
	}
	return "redis+sentinel://katsubushi:secret@" + strings.Join(addresses, ",") + "/main/0?ns=chaos"
}

// elected is the master on which all Sentinels agree, if it thinks so too.
func (s *set) elected() *redistest.Server {
	var found *redistest.Server
	for _, sentinel := range s.sentinels {
		answer, err := sentinel.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
		if err != nil {
			return nil
		}
		i := slices.IndexFunc(s.servers, func(r *redistest.Server) bool {
			return strings.HasSuffix(answer, "\n"+strconv.Itoa(r.Port))
		})
		if i < 0 || found != nil && s.servers[i] != found {
			return nil
		}
		found = s.servers[i]
	}
	if found == nil {
		return nil
	}
	if role, err := found.Ask("INFO", "replication"); err != nil || !strings.Contains(role, "role:master") {
		return nil
	}
	return found
}

// missing says why the next one may not fail yet: nothing when everybody is there and in sync.
func (s *set) missing() string {
	if s.killed != nil {
		return fmt.Sprintf("%d is killed", s.killed.Port)
	}
	info, err := s.master.Ask("INFO", "replication")
	if err != nil {
		return fmt.Sprintf("%d: %v", s.master.Port, err)
	}
	if !strings.Contains(info, "role:master") || strings.Count(info, "state=online") != s.replicas {
		return fmt.Sprintf("%d: %q", s.master.Port, info)
	}
	for _, sentinel := range s.sentinels {
		info, err := sentinel.Ask("INFO", "sentinel")
		_, view, _ := strings.Cut(info, "status=ok,address="+s.master.Addr()+",")
		var replicas, sentinels int
		fmt.Sscanf(view, "slaves=%d,sentinels=%d", &replicas, &sentinels)
		// it never forgets a replica: one that was there too briefly may be more
		if err != nil || replicas < s.replicas || sentinels != len(s.sentinels) {
			return fmt.Sprintf("Sentinel %d: %v, %q", sentinel.Port, err, info)
		}
	}
	return ""
}

// follow learns from the Sentinels who the master is. Where two masters are not allowed, the
// daemons lose the old one now, all of them, and only then may reach the new one: whoever is sent
// there by a Sentinel before finds the door shut.
func (s *set) follow(w *world) {
	elected := s.elected()
	if elected == nil || elected == s.master {
		return
	}
	s.master = elected
	s.failovers++
	w.note("Sentinels have made %d the master", elected.Port)
	s.doors(w)
}

func (s *set) title() string { return s.name }

func (s *set) pool() []string {
	return s.flags("redis://katsubushi:secret@" + s.master.Addr() + "/0?ns=chaos")
}

func (s *set) flags(url string) []string {
	return []string{"-redis", url, "-redis-replicas", strconv.Itoa(s.confirm)}
}

// doors shuts and opens the daemons' ways to the servers: first none leads to a server that it may
// not, then all lead where they may.
func (s *set) doors(w *world) {
	shut := func(d *daemon, server *redistest.Server) bool {
		return d.refused || s.fenced() && server != s.master
	}
	for _, d := range w.daemons {
		for server, p := range d.ways {
			if shut(d, server) {
				p.Refuse(true)
				p.Cut()
			}
		}
		for _, p := range d.sentinels {
			p.Refuse(d.refused)
			if d.refused {
				p.Cut()
			}
		}
	}
	for _, d := range w.daemons {
		for server, p := range d.ways {
			p.Refuse(shut(d, server))
		}
	}
}

// kill ends a server as a crash does.
func (s *set) kill(server *redistest.Server) {
	server.Kill()
	s.killed = server
}

// revive starts the dead server again. It believes to be what it was; an operator makes it a
// replica if there is a new master, before the Sentinels do.
func revive(w *world, _ *daemon) {
	s := w.redis
	back := s.killed
	back.Launch()
	s.killed = nil
	if back == s.master {
		return
	}
	host, port, _ := net.SplitHostPort(s.master.Addr())
	if _, err := back.Ask("REPLICAOF", host, port); err != nil {
		w.note("%d does not become a replica yet: %v", back.Port, err) // Sentinels see to it
	}
}
