#!/bin/sh
# libmemcached's protocol conformance test. Most of its cases store something first, which no id server can do; these must pass.
# It goes by the version: to a server that says less than 1.6 it wants errors where memcached 1.6 answers. usage: memccapable.sh host port
set -eu
for protocol in a b; do
    memccapable -h "$1" -p "$2" -t 5 -$protocol 2>>"$WORK/errors" || true
done >"$WORK/out"
for test in 'ascii version' 'ascii quit' 'ascii verbosity' 'ascii stat' \
    'binary noop' 'binary quit' 'binary quitq' 'binary version' 'binary stat'; do
    grep -q "$test *\[pass\]" "$WORK/out" || { echo "$test did not pass" >&2; exit 1; }
done
