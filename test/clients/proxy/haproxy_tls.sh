#!/bin/sh
# HAProxy takes plain connections and makes TLS ones to the daemon, for clients that know no TLS.
# usage: haproxy_tls.sh host port ca-file, with a directory in WORK and a free port in SPARE_PORT
set -eu
cat >"$WORK/haproxy.cfg" <<END
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen ids
  bind 127.0.0.1:$SPARE_PORT
  server one $1:$2 ssl verify required ca-file $3
END
haproxy -db -f "$WORK/haproxy.cfg" &
trap "kill $!" EXIT
./proxy/wait_port.sh "$SPARE_PORT"
/usr/bin/python3 python/pymemcache_client.py "127.0.0.1:$SPARE_PORT"
