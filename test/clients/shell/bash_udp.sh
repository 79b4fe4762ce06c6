#!/bin/bash
# bash's own UDP sockets: memcached's frame of eight bytes, then text. usage: bash_udp.sh host port
set -eu
exec 3<>"/dev/udp/$1/$2"
ask() { # request id, command
    printf '\0\x'"$1"'\0\0\0\1\0\0'"$2" >&3
    timeout 10 dd bs=1400 count=1 <&3 2>/dev/null | tail -c +9 | tr -d '\r'
}
for i in 1 2 3 4 5; do
    ask "0$i" 'get id\r\n' | awk '/^VALUE/ {getline; print "get", $0}'
done
ask 06 'get identifier-1 identifier-2 identifier-3\r\n' | awk '/^VALUE/ {getline; ids = ids " " $0} END {print "multi" ids}'
ask 07 'gets identifier\r\n' | awk '/^VALUE/ {cas = $5; getline; print "gets", $0, cas}'
ask 08 'version\r\n' | sed 's/^VERSION/version/'
