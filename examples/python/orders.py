"""Five orders, each with an id from katsubushi."""
import os
import sys

from pymemcache.client.base import PooledClient
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheError


class NoId(Exception):
    """The daemon cannot be reached, or has no id now: try again later."""


# One for the whole process. Threads may share it: each call takes a connection from the pool.
ids = RetryingClient(
    PooledClient(os.environ.get("IDS", "127.0.0.1:11212"), connect_timeout=1, timeout=2, no_delay=True, max_pool_size=16),
    attempts=2,
    retry_for=[OSError, MemcacheError],
)


def next_id() -> int:
    try:
        return int(ids.get("id"))
    except (OSError, MemcacheError) as e:
        raise NoId(f"no id: {e}") from e


if __name__ == "__main__":
    try:
        for _ in range(5):
            print(next_id())
    except NoId as e:
        sys.exit(str(e))
