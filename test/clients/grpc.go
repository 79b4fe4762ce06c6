//go:build linux

package main

// overGRPC are the set-ups that use gRPC.
var overGRPC = []setup{
	{name: "kayac/go-katsubushi's client", language: "Go", protocol: "gRPC", needs: "go github.com/kayac/go-katsubushi/v2",
		server: "grpc",
		build:  "cd go && go build -o $WORK/client ./kayac", run: "$WORK/client $HOST $GRPC_PORT",
		does: "get multi version stats", hint: "`-grpc-port 11213`; nothing but the address changes"},
	{name: "grpc-go's health client", language: "Go", protocol: "gRPC", needs: "go google.golang.org/grpc", server: "grpc",
		build: "cd go && go build -o $WORK/client ./grpchealth", run: "$WORK/client $HOST $GRPC_PORT",
		does: "health", hint: "`grpc_health_v1.NewHealthClient(conn)`, as Kubernetes' gRPC probes ask"},
	{name: "grpcio", language: "Python", protocol: "gRPC", needs: "apt python3-grpcio python3-protobuf protobuf-compiler",
		server: "grpc",
		build:  "protoc -I ../../proto --python_out=$WORK katsubushipb/katsubushi.proto",
		run:    "/usr/bin/python3 python/grpc_client.py $WORK $HOST:$GRPC_PORT",
		does:   "get multi version stats",
		hint: "`protoc --python_out`, `channel.unary_unary(\"/katsubushi.Generator/Fetch\", ...)`, or stubs of " +
			"grpcio-tools"},
	{name: "grpcurl, by reflection", language: "shell", protocol: "gRPC", optional: true,
		needs: "tool github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4", server: "grpc",
		run:  "sh shell/grpcurl.sh $HOST:$GRPC_PORT",
		does: "get multi version stats health", hint: "`grpcurl -plaintext host:11213 katsubushi.Generator/Fetch`"},
}
