# examples/postgresql on a server of its own, set up as the first lines of orders.sql say.
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
dir=$(mktemp -d)
as=
if [ "$(id -u)" = 0 ]; then # which the server refuses
  chown postgres $dir
  as='setpriv --reuid=postgres --regid=postgres --clear-groups'
fi
trap '$as $bin/pg_ctl -D $dir/data -m immediate stop >>$WORK/log; rm -rf $dir' EXIT
cd /
$as $bin/initdb -D $dir/data -A trust -U postgres --no-sync >$WORK/log
sed -n "s/^--   \([a-z_.]* = '.*'\).*/\1/p" "$EXAMPLES/postgresql/orders.sql" | sed "s/127.0.0.1:11212/$IDS/" >$WORK/conf
[ $(wc -l <$WORK/conf) = 3 ]
$as tee -a $dir/data/postgresql.conf <$WORK/conf >>$WORK/log
$as $bin/pg_ctl -D $dir/data -w -t 60 -l $dir/log -o "-k $dir -c listen_addresses= -c fsync=off" start >>$WORK/log
psql -X -q -A -t -v ON_ERROR_STOP=1 -h $dir -U postgres <"$EXAMPLES/postgresql/orders.sql"
