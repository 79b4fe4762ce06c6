#!/bin/sh
# nmap's memcached-info script; + runs it on a port other than 11211. usage: nmap.sh host port
set -eu
nmap -Pn -n -p "$2" --script +memcached-info "$1" >"$WORK/out"
cat "$WORK/out" >&2
sed -n 's/^|[ _]*Process ID: \([0-9]*\).*/stat pid \1/p
        s/^|[ _]*Uptime: \([0-9]*\).*/stat uptime \1/p
        s/^|[ _]*Current connections: \([0-9]*\).*/stat curr_connections \1/p
        s/^|[ _]*Total connections: \([0-9]*\).*/stat total_connections \1/p
        s/^|[ _]*Maximum connections: \([0-9]*\).*/stat maxconns \1/p
        s/^|[ _]*TCP Port: \([0-9]*\).*/stat tcpport \1/p' "$WORK/out"
