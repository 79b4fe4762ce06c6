import sys

import bmemcached

host, port, *login = sys.argv[1:]
client = bmemcached.Client([f"{host}:{port}"], *login)
for _ in range(5):
    print("get", int(client.get("id")))
print("multi", *map(int, client.get_multi(["a", "b", "c"]).values()))
value, cas = client.gets("id")
print("gets", int(value), cas)
[stats] = client.stats().values()
print("version", stats["version"].decode())
for name, value in stats.items():
    print("stat", name, value.decode())
print("get", int(client.get("id")))
client.disconnect_all()
