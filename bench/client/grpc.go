//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	inFlight  = 64   // calls at once, over one connection
	manyIDs   = 1000 // of a FetchMulti
	ourGRPC   = "127.0.0.1:11914"
	netGRPC   = "127.0.0.1:11918"
	kayacGRPC = "127.0.0.1:11916"
)

// oursNet is our daemon with the portable engine. An event loop needs a processor of the Go runtime to
// itself, so on one CPU the runtime has two, and the loop must keep one of them from gRPC.
const oursNet = ours + " -engine net"

// startGRPC starts the daemons. Ours has eight lanes, because FetchMulti takes more ids than one can
// issue; kayac's lets calls wait, and listens on all addresses: it has no flag for that.
func startGRPC(ctx context.Context, dir, cpu string) (map[string]*server, func(), error) {
	daemon, theirs := filepath.Join(dir, "katsubushi"), filepath.Join(dir, "kayac")
	err := errors.Join(build(ctx, "../..", "./cmd/katsubushi", daemon),
		build(ctx, "../kayac", "github.com/kayac/go-katsubushi/v2/cmd/katsubushi", theirs))
	if err != nil {
		return nil, nil, err
	}
	return startAll(ctx, cpu, []aServer{
		{ours, ourGRPC,
			[]string{daemon, "-worker-id", "1-8", "-claim", "off", "-state-dir", "none", "-bind", "127.0.0.1", "-port", "11913",
				"-grpc-port", "11914"}},
		{oursNet, netGRPC,
			[]string{daemon, "-worker-id", "9-16", "-claim", "off", "-state-dir", "none", "-bind", "127.0.0.1", "-port", "11917",
				"-grpc-port", "11918", "-engine", "net"}},
		{kayac, kayacGRPC,
			[]string{theirs, "-worker-id", "1", "-port", "11915", "-grpc-port", "11916", "-log-level", "error"}},
	})
}

// grpcCases are the same calls to all daemons, by one client.
func grpcCases() (list []aCase) {
	for _, call := range []string{"Fetch", "FetchMulti"} {
		for name, addr := range map[string]string{ours: ourGRPC, oursNet: netGRPC, kayac: kayacGRPC} {
			list = append(list,
				aCase{name: call + " " + name, goroutines: inFlight, server: name,
					open: func() (func(context.Context) (uint64, error), func(), error) {
						conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
						if err != nil {
							return nil, nil, err
						}
						ids := katsubushipb.NewGeneratorClient(conn)
						take := func(ctx context.Context) (uint64, error) {
							one, err := ids.Fetch(ctx, &katsubushipb.FetchRequest{})
							return one.GetId(), err
						}
						if call == "FetchMulti" {
							take = func(ctx context.Context) (uint64, error) {
								many, err := ids.FetchMulti(ctx, &katsubushipb.FetchMultiRequest{N: manyIDs})
								if err == nil && len(many.Ids) != manyIDs {
									err = fmt.Errorf("%d ids instead of %d", len(many.Ids), manyIDs)
								}
								if err != nil {
									return 0, err
								}
								return many.Ids[manyIDs-1], nil
							}
						}
						return take, func() { conn.Close() }, nil
					}})
		}
	}
	return list
}

// reportGRPC writes the section about gRPC.
func (r results) reportGRPC(how string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## gRPC\n\n%d calls at once over one connection, by the same client, to the daemon of "+
		"kayac/go-katsubushi v2.0.4 as it was released and to ours. CPU time is\n"+
		"µs per call, of the server; FetchMulti gets %d ids. `cd bench/client && go run . -only grpc -into ../RESULTS.md` "+
		"measures it.\n\n%s", inFlight, manyIDs, how)
	b.WriteString("| call | daemon | calls/s | server's CPU |\n|---|---|---|---|\n")
	ratio := map[string]float64{}
	for _, call := range []string{"Fetch", "FetchMulti"} {
		cpu := map[string]float64{}
		for _, name := range []string{ours, oursNet, kayac} {
			key := call + " " + name
			cpu[name] = r.median(key, serverCPU)
			fmt.Fprintf(&b, "| %s | %s | %.0f | %.1f |\n", call, name, r.median(key, rate), cpu[name]/1000)
		}
		ratio[call] = cpu[ours] / cpu[kayac]
	}
	writeBars(&b, []bar{
		{"Fetch, server's CPU against kayac's", ratio["Fetch"], "x", 1, true},
		{fmt.Sprintf("FetchMulti of %d, server's CPU against kayac's", manyIDs), ratio["FetchMulti"], "x", 0.5, true},
	})
	return b.String()
}
