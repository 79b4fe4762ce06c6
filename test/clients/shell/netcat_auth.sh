#!/bin/sh
# memcached's text handshake: a set, with any key, whose value is the user name, a space and the password.
# usage: netcat_auth.sh host port user password
set -eu
host=$1 port=$2 login="$3 $4"
ask() { printf "set login 0 0 ${#login}\r\n$login\r\n$1" | timeout 10 nc -N "$host" "$port" | tr -d '\r'; }

for _ in 1 2 3 4 5; do
    ask 'get id\r\nquit\r\n' | awk 'NR == 1 && $0 != "STORED" {print; exit 1} /^VALUE /{getline; print "get", $0}'
done
ask 'version\r\nquit\r\n' | sed -n 's/^VERSION/version/p'
refused=$(printf 'get id\r\n' | timeout 10 nc -N "$host" "$port" | tr -d '\r')
[ "$refused" = 'CLIENT_ERROR unauthenticated' ] || { echo "without a login: $refused" >&2; exit 1; }
