<?php
// A cluster client that asks for values of sequences until its standard input ends.
$client = new RedisCluster(null, array_slice($argv, 1), 2, 10);
$names = ['orders', 'items', 'tickets', 'users', 'free'];
stream_set_blocking(STDIN, false);
for ($i = 0; fread(STDIN, 1) === '' && !feof(STDIN); $i++) {
    $name = $names[$i % 5];
    $n = 1 + $i % 3;
    $began = hrtime(true); // CLOCK_MONOTONIC, which all processes share
    try {
        $last = $client->incrby($name, $n);
        $why = $client->getLastError();
        $client->clearLastError();
    } catch (RedisClusterException $e) {
        $last = false;
        $why = $e->getMessage();
    }
    $now = hrtime(true);
    echo $last === false ? "error $name $began $now $why\n" : "value $name $began $now $last $n\n";
    usleep(2000);
}
