#!/bin/sh
# twemproxy (nutcracker) in front, one connection to the daemon. It passes get and gets; version and stats it answers itself or not at all.
# usage: nutcracker.sh host port, with a directory in WORK and a free port in SPARE_PORT
set -eu
cat >"$WORK/nutcracker.yml" <<END
ids:
  listen: 127.0.0.1:$SPARE_PORT
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  server_connections: 1
  servers:
   - $1:$2:1
END
nutcracker -c "$WORK/nutcracker.yml" -o "$WORK/nutcracker.log" -s "$STATS_PORT" -a 127.0.0.1 -m 1024 &
trap "kill $!" EXIT
./proxy/wait_port.sh "$SPARE_PORT"
/usr/bin/python3 python/pymemcache_client.py "127.0.0.1:$SPARE_PORT" proxy
