# pymemcache's plain Client: one connection, to host:port or to the path of a unix socket.
import sys

from pymemcache.client.base import Client

client = Client(sys.argv[1])
for _ in range(5):
    print("get", client.get("id").decode())
print("multi", *(v.decode() for v in client.get_many(["a", "b", "c"]).values()))
value, cas = client.gets("id")
print("gets", value.decode(), cas.decode())
if "proxy" not in sys.argv:
    print("version", client.version().decode())
    for name, value in client.stats().items():
        print("stat", name.decode(), value.decode() if isinstance(value, bytes) else value)
    print("group settings", len(client.stats("settings")))
print("get", client.get("id").decode())
client.quit()
