"""Ids from katsubushi for models: next_id() for one, next_ids(n) for a bulk insert."""
import os

import redis


class NoId(Exception):
    """No daemon has an id now: try again later."""


# A pool of connections for each daemon. Threads share them; the second daemon is asked if the first has no ids.
DAEMONS = [
    redis.Redis(host, int(port), socket_connect_timeout=1, socket_timeout=2, max_connections=16)
    for host, _, port in (a.rpartition(":") for a in os.environ.get("IDS", "127.0.0.1:11212").split(","))
]


def next_ids(n, name="id"):
    """n ids, with one request for each 1,000. A name that the daemons do not declare gets plain ids."""
    if n > 1000:
        return next_ids(1000, name) + next_ids(n - 1000, name)
    why = []
    for daemon in DAEMONS:
        try:
            values = daemon.mget([name] * n)
            for e in values:
                if isinstance(e, Exception):
                    raise e
            return [int(v) for v in values]
        except redis.RedisError as e:
            why.append(str(e))
    raise NoId("no id: " + "; ".join(why))


def next_id(name="id"):
    return next_ids(1, name)[0]
