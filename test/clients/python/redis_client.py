import sys

import redis

host, port, *login = sys.argv[1:]
client = redis.Redis(host=host, port=int(port), **dict(zip(("username", "password"), login)))
for _ in range(5):
    print("get", int(client.get("id")))
print("multi", *map(int, client.mget("a", "b", "c")))
if not login:
    print("incr", client.incr("orders"))
    print("incrby", client.incrby("orders", 10), 10)
    number, count = client.pipeline(transaction=False).get("id").incr("orders").execute()
    print("get", int(number))
    print("incr", count)
    number, count = client.pipeline().get("id").incr("orders").execute()
    print("exec", int(number), count)
    print("version", client.info("server")["redis_version"])
client.close()
