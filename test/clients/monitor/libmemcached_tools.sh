#!/bin/sh
# The command line tools of libmemcached. usage: libmemcached_tools.sh host port [--binary]
set -eu
server=--servers=$1:$2
shift 2 # what is left are options of memccat, memcexist and memcstat; memcping has none for the protocol
memcping "$server"
memcexist "$@" "$server" id
for _ in 1 2 3 4 5; do echo "get $(memccat "$@" "$server" id)"; done
echo "multi $(memccat "$@" "$server" a b c | tr '\n' ' ')"
memcstat "$@" "$server" | awk -F': ' '/^\t/ { sub(/^\t/, ""); print "stat", $1, $2 } $1 == "version" { print "version", $2 }'
