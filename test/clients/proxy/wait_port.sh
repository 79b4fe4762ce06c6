#!/bin/sh
# waits until somebody listens on a loopback port. usage: wait_port.sh port
for _ in $(seq 200); do
    nc -z 127.0.0.1 "$1" && exit 0
    sleep 0.05
done
echo "nobody listens on port $1" >&2
exit 1
