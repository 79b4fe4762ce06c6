#!/bin/sh
# redis-benchmark, which stops at the first error. Its own PING test sends an inline command, so that takes -redis-port.
set -eu
for port in "$2" "$3"; do
	redis-benchmark -h "$1" -p "$port" -n 5000 -c 20 -P 8 -e --csv get id
	redis-benchmark -h "$1" -p "$port" -n 5000 -c 20 -e --csv incr orders
done >"$4"
redis-benchmark -h "$1" -p "$3" -n 1000 -e --csv -t ping >>"$4"
! grep -i error "$4" >&2
[ "$(grep -c '^"[^"]*","[1-9]' "$4")" = 6 ]
