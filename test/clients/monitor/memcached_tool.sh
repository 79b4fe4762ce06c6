#!/bin/sh
# memcached's own memcached-tool. usage: memcached_tool.sh host port
set -eu
tool() { timeout 10 /usr/share/memcached/scripts/memcached-tool "$@"; }
tool "$1:$2" stats | awk 'NR > 1 { print "stat", $1, $2 } $1 == "version" { print "version", $2 }'
tool "$1:$2" settings | awk 'NR > 1 { n++ } END { print "group settings", n }'
tool "$1:$2" display | grep -q 'Item_Size' # slab classes: a heading, and no class
tool "$1:$2" sizes >/dev/null
