# pymemcache over TLS. usage: pymemcache_tls.py host port ca-file
import ssl
import sys

from pymemcache.client.base import Client

host, port, ca = sys.argv[1:4]
client = Client((host, int(port)), tls_context=ssl.create_default_context(cafile=ca))
for _ in range(5):
    print("get", client.get("id").decode())
print("multi", *(v.decode() for v in client.get_many(["a", "b", "c"]).values()))
print("version", client.version().decode())
client.quit()
