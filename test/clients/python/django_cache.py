# Django's cache framework over the backend named on the command line.
import sys

from django.conf import settings
from django.core.cache import cache

settings.configure(CACHES={"default": {
    "BACKEND": "django.core.cache.backends.memcached." + sys.argv[3],
    "LOCATION": f"{sys.argv[1]}:{sys.argv[2]}",
}})
for _ in range(5):
    print("get", int(cache.get("id")))
print("multi", *map(int, cache.get_many(["a", "b", "c"]).values()))
print("get", int(cache.get("id")))
