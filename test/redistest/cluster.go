package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// Cluster starts n masters that share the slots evenly and in order, and waits until each of them
// serves.
func Cluster(t testing.TB, n int) []*Server {
	t.Helper()
	var all []*Server
	for i := range n {
		s := startNode(t)
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // else they settle it among themselves, and elect nobody meanwhile
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1)
		if i > 0 {
			s.meet(all[0])
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.Until("the cluster is up", func() bool {
			info := fmt.Sprint(s.Do("CLUSTER", "INFO"))
			return strings.HasPrefix(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n))
		})
	}
	return all
}

// startNode starts a node that belongs to no cluster yet. Its port for the other nodes is a free
// one, which 10,000 above need not be.
func startNode(t testing.TB) *Server {
	return Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port",
		strconv.Itoa(FreePort(t)))
}

func (s *Server) meet(other *Server) {
	s.t.Helper()
	for i, a := range other.args {
		if a == "--cluster-port" {
			s.Do("CLUSTER", "MEET", "127.0.0.1", other.Port, other.args[i+1])
		}
	}
}

// NodeID is what the nodes of the cluster call this one.
func (s *Server) NodeID() string {
	s.t.Helper()
	return fmt.Sprint(s.Do("CLUSTER", "MYID"))
}

// ClusterReplica starts a replica of the first of a cluster's nodes. It waits until it is in sync,
// and the others would elect it.
func ClusterReplica(nodes []*Server) *Server {
	master := nodes[0]
	master.t.Helper()
	r, id := startNode(master.t), master.NodeID()
	knows := func(who *Server, what string) func() bool {
		return func() bool { return strings.Contains(fmt.Sprint(who.Do("CLUSTER", "NODES")), what) }
	}
	r.meet(master)
	r.Until("the replica knows its master", knows(r, id))
	r.Do("CLUSTER", "REPLICATE", id)
	r.Until("the replica is in sync", func() bool { return r.Info("master_link_status") == "up" })
	for _, s := range nodes {
		s.Until("every node knows the replica", knows(s, "slave "+id))
	}
	r.Until("it finds the cluster well", func() bool {
		return strings.HasPrefix(fmt.Sprint(r.Do("CLUSTER", "INFO")), "cluster_state:ok")
	})
	return r
}
