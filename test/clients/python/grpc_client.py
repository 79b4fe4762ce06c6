# grpcio, with messages that protoc has generated. usage: grpc_client.py directory-of-messages host:port
import sys

import grpc

sys.path.insert(0, sys.argv[1])
from katsubushipb import katsubushi_pb2 as pb

channel = grpc.insecure_channel(sys.argv[2])


def method(service, name, request, response):
    call = channel.unary_unary(f"/katsubushi.{service}/{name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString)
    return lambda **fields: call(request(**fields), timeout=30)


fetch = method("Generator", "Fetch", pb.FetchRequest, pb.FetchResponse)
fetch_multi = method("Generator", "FetchMulti", pb.FetchMultiRequest, pb.FetchMultiResponse)
for _ in range(5):
    print("get", fetch().id)
print("multi", *fetch_multi(n=100).ids)
print("get", fetch().id)
try:
    fetch_multi(n=1001)
    sys.exit("1001 ids at once are not refused")
except grpc.RpcError as e:
    if e.code() != grpc.StatusCode.INVALID_ARGUMENT:
        raise
stats = method("Stats", "Get", pb.StatsRequest, pb.StatsResponse)()
print("version", stats.version)
for name in ("pid", "curr_connections", "total_connections", "cmd_get", "get_hits"):
    print("stat", name, getattr(stats, name))
channel.close()
