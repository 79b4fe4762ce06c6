"""A cluster client that asks for values of sequences until its standard input ends."""
import logging
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

logging.disable()  # it logs each redirection, with a stack
nodes = [ClusterNode(host, int(port)) for host, port in (a.split(":") for a in sys.argv[1:])]


class Cluster(RedisCluster):
    def __deepcopy__(self, memo):  # redis-py 4.3 copies its settings to connect again, and fails to copy the client in them
        return self


client = Cluster(startup_nodes=nodes, cluster_error_retry_attempts=10)
names = ["orders", "items", "tickets", "users", "free"]
now = time.monotonic_ns  # CLOCK_MONOTONIC, which all processes share
over = threading.Event()
printing = threading.Lock()


def work(worker):
    i = worker
    while not over.is_set():
        name, n, began = names[i % 5], 1 + i % 3, now()
        try:
            last = client.incrby(name, n)
            line = f"value {name} {began} {now()} {last} {n}"
        except Exception as e:
            line = f"error {name} {began} {now()} {type(e).__name__} {e}"
        with printing:
            print(line.replace("\n", " "), flush=True)
        i += 1
        time.sleep(0.002)


workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
for w in workers:
    w.start()
sys.stdin.read()
over.set()
for w in workers:
    w.join()
client.close()
