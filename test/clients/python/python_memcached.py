import sys

import memcache

client = memcache.Client([f"{sys.argv[1]}:{sys.argv[2]}"], cache_cas=True)
for _ in range(5):
    print("get", int(client.get("id")))
print("multi", *map(int, client.get_multi(["a", "b", "c"]).values()))
value = client.gets("id")
print("gets", int(value), client.cas_ids[b"id"])
[(_, stats)] = client.get_stats()
print("version", stats["version"])
for name, value in stats.items():
    print("stat", name, value)
[(_, settings)] = client.get_stats("settings")
print("group settings", len(settings))
print("get", int(client.get("id")))
client.disconnect_all()
