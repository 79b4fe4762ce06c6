import sys

import pylibmc

host, port, protocol, *login = sys.argv[1:]
username, password = login or (None, None)
client = pylibmc.Client([f"{host}:{port}"], binary=protocol == "binary", username=username, password=password, behaviors={"cas": True})
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
