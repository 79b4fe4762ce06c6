#!/bin/sh
# The Prometheus memcached exporter. usage: exporter.sh host port, with a free port in SPARE_PORT
set -eu
PATH=$PATH:$(go env GOPATH)/bin
memcached_exporter --memcached.address "$1:$2" --web.listen-address "127.0.0.1:$SPARE_PORT" >"$WORK/log" 2>&1 &
trap "kill $!; cat $WORK/log >&2" EXIT
./proxy/wait_port.sh "$SPARE_PORT"
curl -sSf -m 10 "http://127.0.0.1:$SPARE_PORT/metrics" | sed -n 's/^memcached_/stat /p'
