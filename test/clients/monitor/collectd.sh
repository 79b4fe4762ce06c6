#!/bin/sh
# collectd's memcached plugin, writing into CSV files. usage: collectd.sh host port
set -eu
cat >"$WORK/collectd.conf" <<END
Hostname "here"
Interval 1
BaseDir "$WORK"
PIDFile "$WORK/collectd.pid"
TypesDB "/usr/share/collectd/types.db"
LoadPlugin csv
LoadPlugin memcached
<Plugin csv>
  DataDir "$WORK/csv"
</Plugin>
<Plugin memcached>
  <Instance "ids">
    Address "$1"
    Port "$2"
  </Instance>
</Plugin>
END
/usr/sbin/collectd -f -C "$WORK/collectd.conf" >"$WORK/collectd.log" 2>&1 &
trap "kill $!; cat $WORK/collectd.log >&2" EXIT
for _ in $(seq 200); do # counters of a first reading may be missing: wait for the plugin's last file
    ls "$WORK"/csv/here/memcached-ids/ps_count-* >/dev/null 2>&1 && break
    sleep 0.05
done
cd "$WORK/csv/here/memcached-ids"
for file in *; do
    echo "stat ${file%-????-??-??} $(tail -n 1 "$file" | cut -d, -f2)"
done
