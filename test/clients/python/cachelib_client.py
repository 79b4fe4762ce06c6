# cachelib is the cache behind Flask-Caching and Flask-Session.
import sys

from cachelib import MemcachedCache

cache = MemcachedCache([f"{sys.argv[1]}:{sys.argv[2]}"])
for _ in range(5):
    print("get", int(cache.get("id")))
print("multi", *map(int, cache.get_many("a", "b", "c")))
print("get", int(cache.get("id")))
