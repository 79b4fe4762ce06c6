#!/bin/bash
# Shell scripts have no client library and need none: bash's own /dev/tcp.
# usage: bash.sh host port text|meta
set -euo pipefail
exec 3<>"/dev/tcp/$1/$2"

line() { IFS= read -r -t 5 -u 3 answer && answer=${answer%$'\r'}; }
text_get() {
    printf 'get id\r\n' >&3
    line && [[ $answer == 'VALUE id 0 '* ]]
    line && echo "get $answer"
    line && [[ $answer == END ]]
}
meta_get() {
    printf 'mg id v\r\n' >&3
    line && [[ $answer == 'VA '* ]]
    line && echo "get $answer"
}

for _ in 1 2 3 4 5; do "$3_get"; done
printf 'version\r\n' >&3
line && echo "version ${answer#VERSION }"
printf 'stats\r\n' >&3
while line && [[ $answer != END ]]; do
    read -r _ name value <<<"$answer"
    echo "stat $name $value"
done
printf 'quit\r\n' >&3
