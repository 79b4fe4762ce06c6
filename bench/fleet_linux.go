package main

import (
	"fmt"
	"path/filepath"
)

// fleetNames are the names that the daemons of a fleet declare.
var fleetNames = []string{"orders", "tickets", "tx"}

// startFleet starts an etcd of one member and two daemons, and returns one with the given role. The
// first daemon leads all sequences in strict order: it is there before the other one, and nobody takes
// them from it. All share a CPU.
func (p peer) startFleet(r role, cpu int, dir string) (*process, error) {
	clients, err := freeEndpoint(overTCP, dir)
	if err != nil {
		return nil, err
	}
	peers, err := freeEndpoint(overTCP, dir)
	if err != nil {
		return nil, err
	}
	at, members := "http://"+clients.address, "http://"+peers.address
	etcd, err := launch([]string{"etcd", "--name", "bench", "--data-dir", filepath.Join(dir, "etcd-"+clients.address),
		"--log-level", "error",
		"--listen-client-urls", at, "--advertise-client-urls", at, "--listen-peer-urls", members,
		"--initial-advertise-peer-urls", members, "--initial-cluster", "bench=" + members}, clients, cpu, dir)
	if err != nil {
		return nil, err
	}
	daemon := func(beside *process) (*process, error) {
		pr, err := p.startMember(clients, cpu, dir)
		if err != nil {
			beside.stop()
			return nil, fmt.Errorf("a fleet: %w", err)
		}
		pr.beside = []*process{beside}
		return pr, nil
	}
	leader, err := daemon(etcd)
	if err != nil || r == leads {
		return leader, err
	}
	follower, err := daemon(leader)
	if err == nil {
		follower.shares = leader.pid
	}
	return follower, err
}

// startMember starts a daemon on an etcd.
func (p peer) startMember(etcd endpoint, cpu int, dir string) (*process, error) {
	at, err := freeEndpoint(overTCP, dir)
	if err != nil {
		return nil, err
	}
	argv := append(p.command(at, 0, dir), "-counters", "etcd://"+etcd.address+"?ns=bench", "-max-wait", "1m", "-generator",
		"orders sequence; tickets sequence order=strict; tx snowflake layout=katsubushi order=strict node=1023")
	pr, err := launch(argv, at, cpu, dir)
	if err != nil {
		return nil, err
	}
	pr.names = fleetNames
	return pr, pr.awaitReady(p)
}
