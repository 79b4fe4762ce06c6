#!/bin/sh
# libmemcached's protocol conformance test: those of its cases that store nothing. usage: memccapable.sh host port
set -eu
for test in 'ascii version' 'ascii verbosity' 'ascii stat' \
    'binary noop' 'binary quit' 'binary quitq' 'binary stat' 'binary version'; do
    memccapable -h "$1" -p "$2" -t 5 -T "$test" >"$WORK/out" 2>&1 || { echo "$test: $(cat "$WORK/out")" >&2; exit 1; }
    grep -q '\[pass\]' "$WORK/out" || { echo "$test: $(cat "$WORK/out")" >&2; exit 1; }
done
