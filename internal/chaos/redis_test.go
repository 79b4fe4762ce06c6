//go:build chaos && linux

package chaos

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/internal/redistest"
)

// A set is a master, its replicas, the Sentinels that watch them, and who of them the daemons are sent to.
type set struct {
	servers   []*redistest.Server
	ask       map[*redistest.Server]func(args ...any) (string, error)
	sentinels []*redistest.Server
	master    *redistest.Server
	killed    *redistest.Server // dead, or nil
	failovers int
	busy      bool // a fault is happening to it
}

func newSet(t testing.TB) *set {
	master := redistest.Start(t)
	s := &set{servers: []*redistest.Server{master, master.Replica(), master.Replica()}, master: master}
	s.sentinels = redistest.Sentinels(t, 3, 2, master.Addr())
	s.ask = map[*redistest.Server]func(...any) (string, error){}
	for _, server := range append(append([]*redistest.Server{}, s.servers...), s.sentinels...) {
		client := server.Client()
		s.ask[server] = func(args ...any) (string, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			v, err := client.Do(ctx, args...).Result()
			return fmt.Sprint(v), err
		}
	}
	return s
}

// elected is the master on which all Sentinels agree, if it thinks so too.
func (s *set) elected() *redistest.Server {
	var found *redistest.Server
	for _, sentinel := range s.sentinels {
		answer, err := s.ask[sentinel]("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
		if err != nil {
			return nil
		}
		var is *redistest.Server
		for _, server := range s.servers {
			if strings.HasSuffix(strings.Trim(answer, "[]"), " "+strconv.Itoa(server.Port)) {
				is = server
			}
		}
		if is == nil || found != nil && is != found {
			return nil
		}
		found = is
	}
	if role, err := s.ask[found]("INFO", "replication"); err != nil || !strings.Contains(role, "role:master") {
		return nil
	}
	return found
}

// whole says whether everybody is there and in sync, so that the next master may die.
func (s *set) whole() bool {
	info, err := s.ask[s.master]("INFO", "replication")
	if err != nil || s.killed != nil || strings.Count(info, "state=online") != len(s.servers)-1 {
		return false
	}
	for _, sentinel := range s.sentinels {
		info, err := s.ask[sentinel]("INFO", "sentinel")
		if err != nil || !strings.Contains(info, fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", s.master.Addr(), len(s.servers)-1, len(s.sentinels))) {
			return false
		}
	}
	return true
}

// follow sends the daemons to a new master, all together: first no proxy lets anything through, then all know the new one. So no two
// masters ever serve the pool at once, even when Sentinel takes a slow master for a dead one.
func (w *world) follow() {
	elected := w.redis.elected()
	if elected == nil || elected == w.redis.master {
		return
	}
	for _, d := range w.daemons {
		d.proxy.Refuse(true)
		d.proxy.Cut()
	}
	for _, d := range w.daemons {
		d.proxy.Retarget(elected.Addr())
		d.proxy.Cut() // what was being dialled meanwhile
		d.proxy.Refuse(w.refusing[d])
	}
	w.redis.master = elected
	w.redis.failovers++
	w.note("Sentinel has made %d the master", elected.Port)
}

// revive brings the dead server back, as a replica of the master that there is.
func (w *world) revive() {
	s := w.redis
	back := s.killed
	back.Launch()
	s.killed = nil
	host, port, _ := net.SplitHostPort(s.master.Addr())
	if back != s.master {
		// A new connection: the old one's library waits a while after refused ones. If it fails, Sentinel will see to it.
		if err := back.Client().Do(context.Background(), "REPLICAOF", host, port).Err(); err != nil {
			w.note("%d does not become a replica yet: %v", back.Port, err)
		}
	}
}
