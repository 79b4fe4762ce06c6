# pymemcache's HashClient over a connection pool, as web applications use it.
import sys

from pymemcache.client.hash import HashClient

client = HashClient([(sys.argv[1], int(sys.argv[2]))], use_pooling=True, max_pool_size=2)
for _ in range(5):
    print("get", client.get("id").decode())
print("multi", *(v.decode() for v in client.get_many(["a", "b", "c"]).values()))
value, cas = client.gets("id")
print("gets", value.decode(), cas.decode())
client.quit()
