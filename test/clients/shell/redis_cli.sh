#!/bin/sh
# redis-cli, which prints values alone when its output is no terminal. -3 speaks RESP3.
set -eu
cli="redis-cli -h $1 -p $2 $3"
for _ in 1 2 3 4 5; do
	echo "get $($cli get id)"
done
echo multi $($cli mget a b c)
echo "incr $($cli incr orders)"
echo "incrby $($cli incrby orders 10) 10"
printf 'incr orders\nmulti\nget id\nincr orders\nexec\n' | $cli | {
	read -r n && echo "incr $n"
	read -r ok && read -r queued && read -r queued
	read -r id && read -r n && echo "exec $id $n"
}
echo "version $($cli info server | tr -d '\r' | sed -n 's/^redis_version://p')"
