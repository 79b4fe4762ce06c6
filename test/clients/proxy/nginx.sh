#!/bin/sh
# nginx in front, with connections to the daemon kept alive: its own memcached_pass, the memc module, or the Lua client of OpenResty.
# usage: nginx.sh host port pass|memc|lua, with a directory in WORK and a free port in SPARE_PORT
set -eu
modules=/usr/lib/nginx/modules
case $3 in
pass) load= location='set $memcached_key id; memcached_pass ids;' ;;
memc) load="load_module $modules/ngx_http_memc_module.so;" location='set $memc_cmd $arg_cmd; set $memc_key id; memc_pass ids;' ;;
lua)
    load="load_module $modules/ndk_http_module.so; load_module $modules/ngx_http_lua_module.so;"
    location="set \$ids_host $1; set \$ids_port $2; content_by_lua_file $PWD/proxy/ids.lua;"
    ;;
esac
cat >"$WORK/nginx.conf" <<END
$load
daemon off;
worker_processes 1;
pid $WORK/nginx.pid;
error_log $WORK/error.log;
events {}
http {
  access_log off;
  client_body_temp_path $WORK/body;
  proxy_temp_path $WORK/proxy;
  fastcgi_temp_path $WORK/fastcgi;
  uwsgi_temp_path $WORK/uwsgi;
  scgi_temp_path $WORK/scgi;
  upstream ids {
    server $1:$2;
    keepalive 1;
  }
  server {
    listen 127.0.0.1:$SPARE_PORT;
    default_type text/plain;
    location / { $location }
  }
}
END
nginx -p "$WORK" -e "$WORK/error.log" -c "$WORK/nginx.conf" &
trap "kill $!; cat $WORK/error.log >&2" EXIT
./proxy/wait_port.sh "$SPARE_PORT"
ask() { curl -sSf -m 5 "http://127.0.0.1:$SPARE_PORT/$1" | tr -d '\r'; }

case $3 in
lua) ask '' && ask '' ;;
*) for _ in 1 2 3 4 5 6; do echo "get $(ask '?cmd=get')"; done ;;
esac
if [ "$3" = memc ]; then
    ask '?cmd=version' | sed 's/^VERSION/version/'
    ask '?cmd=stats' | sed -n 's/^STAT/stat/p'
fi
