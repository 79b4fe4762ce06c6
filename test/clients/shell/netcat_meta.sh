#!/bin/sh
# Meta commands piped through netcat: every flag that mg knows for reading, quiet gets and a no-op that ends the pipeline.
# usage: netcat_meta.sh host port
set -eu
ask() { printf "$1" | timeout 10 nc -N "$host" "$port" | tr -d '\r'; }
host=$1 port=$2

for _ in 1 2 3 4 5; do
    ask 'mg id v\r\n' | awk '/^VA /{getline; print "get", $0}'
done
# The quiet gets of a pipeline answer hits only, and MN says that the rest were misses: an id is always a hit.
ask 'mg a v q\r\nmg b v q k\r\nmg YWJj b k v q Oxyz\r\nmn\r\nquit\r\n' |
    awk '/^VA /{getline; ids = ids " " $0} /^MN/{print "multi" ids}'
ask 'mg id s v f t c k O7\r\nquit\r\n' |
    awk '/^VA /{header = $0; split(header, f, " "); getline; print "gets", $0, substr(f[6], 2)
                if (f[3] != "s" f[2] || f[4] != "f0" || f[5] != "t-1" || f[7] != "kid" || f[8] != "O7") { print header; exit 1 }}'
ask 'me id\r\nquit\r\n' | grep -q '^ME id .*size=' || { echo 'no answer to me' >&2; exit 1; }
ask 'version\r\nquit\r\n' | sed 's/^VERSION/version/'
ask 'stats\r\nquit\r\n' | sed -n 's/^STAT/stat/p'
