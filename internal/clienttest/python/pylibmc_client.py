import sys

import pylibmc

host, port, protocol = sys.argv[1:4]
client = pylibmc.Client([f"{host}:{port}"], binary=protocol == "binary", behaviors={"cas": True})
for _ in range(5):
    print("get", int(client.get("id")))
print("multi", *map(int, client.get_multi(["a", "b", "c"]).values()))
value, cas = client.gets("id")
print("gets", int(value), cas)
[(_, stats)] = client.get_stats()
print("version", stats["version"].decode())
for name, value in stats.items():
    print("stat", name, value.decode())
[(_, settings)] = client.get_stats("settings")
print("group settings", len(settings))
print("get", int(client.get("id")))
client.disconnect_all()
