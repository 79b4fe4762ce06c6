import sys

from twisted.internet import defer, endpoints, task
from twisted.protocols.memcache import MemCacheProtocol


async def main(reactor):
    endpoint = endpoints.TCP4ClientEndpoint(reactor, sys.argv[1], int(sys.argv[2]))
    client = await endpoints.connectProtocol(endpoint, MemCacheProtocol())
    for _ in range(5):
        flags, value = await client.get(b"id")
        print("get", value.decode())
    answers = await client.getMultiple([b"a", b"b", b"c"])
    print("multi", *(value.decode() for flags, value in answers.values()))
    flags, cas, value = await client.get(b"id", True)
    print("gets", value.decode(), cas.decode())
    print("version", (await client.version()).decode())
    for name, value in (await client.stats()).items():
        print("stat", name.decode(), value.decode())
    print("group settings", len(await client.stats(b"settings")))


task.react(lambda reactor: defer.ensureDeferred(main(reactor)))
