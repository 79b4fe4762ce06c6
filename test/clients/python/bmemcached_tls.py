# python-binary-memcached over TLS. usage: bmemcached_tls.py host port ca-file
import ssl
import sys

import bmemcached

host, port, ca = sys.argv[1:4]
client = bmemcached.Client([f"{host}:{port}"], tls_context=ssl.create_default_context(cafile=ca))
for _ in range(5):
    print("get", client.get("id"))
print("multi", *client.get_multi(["a", "b", "c"]).values())
client.disconnect_all()
