#!/bin/sh
# Zabbix agent 2's memcached plugin, as its own template asks it. usage: zabbix.sh host port
set -eu
ask() { zabbix_agent2 -c /dev/null -t "memcached.$1" | sed 's/^[^|]*|\(.*\)\]$/\1/'; }
[ "$(ask "ping[tcp://$1:$2]")" = 1 ]
ask "stats[tcp://$1:$2]" | tr -d '{}"' | tr ',:' '\n ' | sed 's/^/stat /'
echo "group settings $(ask "stats[tcp://$1:$2,,,settings]" | tr ',' '\n' | wc -l)"
