#!/bin/sh
# HAProxy in TCP mode; its health check speaks the text protocol.
# usage: haproxy.sh host port, with a directory in WORK and a free port in SPARE_PORT
set -eu
cat >"$WORK/haproxy.cfg" <<END
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen ids
  bind 127.0.0.1:$SPARE_PORT
  option tcp-check
  tcp-check connect
  tcp-check send version\r\n
  tcp-check expect rstring ^VERSION\ [0-9.]+
  tcp-check send get\ id\r\n
  tcp-check expect rstring ^VALUE\ id\ 0
  tcp-check send quit\r\n
  server one $1:$2 check inter 100ms rise 1 init-addr none
listen state
  mode http
  bind 127.0.0.1:$STATS_PORT
  stats enable
  stats uri /
END
haproxy -db -f "$WORK/haproxy.cfg" &
trap "kill $!" EXIT
./proxy/wait_port.sh "$SPARE_PORT"
for _ in $(seq 100); do # until a health check has been through
    state=$(curl -sf "http://127.0.0.1:$STATS_PORT/;csv" | awk -F, '$1 == "ids" && $2 == "one" { print $18, $37 }')
    [ "$state" = 'UP L7OK' ] && break
    sleep 0.05
done
[ "$state" = 'UP L7OK' ] || { echo "health check: $state" >&2; exit 1; }
/usr/bin/python3 python/pymemcache_client.py "127.0.0.1:$SPARE_PORT"
