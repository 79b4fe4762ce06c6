#!/bin/sh
# munin's memcached_ plugin, all three graphs. usage: munin.sh host port
set -eu
for graph in rates bytes counters; do
    ln -sf /usr/share/munin/plugins/memcached_ "$WORK/memcached_$graph"
    host=$1 port=$2 perl "$WORK/memcached_$graph" | sed 's/^\([a-z_]*\)\.value /stat \1 /'
done
