# grpcurl, which learns the services by reflection. usage: grpcurl.sh address
set -e
call() { method=$1; shift; grpcurl -plaintext -max-time 30 "$@" "$address" "$method"; }
address=$1

# What the daemon says it serves.
services=$(call list)
for s in katsubushi.Generator katsubushi.Stats grpc.health.v1.Health; do
	echo "$services" | grep -qx "$s" || { echo "no $s in $services" >&2; exit 1; }
done
call describe | grep -q 'rpc FetchMulti ( .katsubushi.FetchMultiRequest ) returns ( .katsubushi.FetchMultiResponse );'

# 64-bit numbers are strings in protobuf's JSON.
for _ in 1 2 3 4 5; do
	call katsubushi.Generator/Fetch | sed -n 's/.*"id": "\([0-9]*\)".*/get \1/p'
done
echo multi $(call katsubushi.Generator/FetchMulti -d '{"n": 3}' | grep -o '[0-9]\{10,\}')
call katsubushi.Stats/Get | sed -n 's/.*"version": "\(.*\)".*/version \1/p
	s/.*"pid": \([0-9]*\).*/stat pid \1/p
	s/.*"currConnections": "\([0-9]*\)".*/stat curr_connections \1/p
	s/.*"totalConnections": "\([0-9]*\)".*/stat total_connections \1/p
	s/.*"cmdGet": "\([0-9]*\)".*/stat cmd_get \1/p
	s/.*"getHits": "\([0-9]*\)".*/stat get_hits \1/p'
call grpc.health.v1.Health/Check | sed -n 's/.*"status": "\(.*\)".*/health Check\/ \1/p'
