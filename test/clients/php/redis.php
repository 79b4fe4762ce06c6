<?php
[, $host, $port] = $argv;
$client = new Redis();
$client->connect($host, (int)$port);
if (isset($argv[4])) {
    $client->auth([$argv[3], $argv[4]]);
}
for ($i = 0; $i < 5; $i++) {
    echo 'get ', $client->get('id'), "\n";
}
echo 'multi ', implode(' ', $client->mGet(['a', 'b', 'c'])), "\n";
if (!isset($argv[4])) {
    echo 'incr ', $client->incr('orders'), "\n";
    echo 'incrby ', $client->incrBy('orders', 10), " 10\n";
    [$id, $n] = $client->pipeline()->get('id')->incr('orders')->exec();
    echo "get $id\nincr $n\n";
    echo 'exec ', implode(' ', $client->multi()->get('id')->incr('orders')->exec()), "\n";
    echo 'version ', $client->info('server')['redis_version'], "\n";
}
$client->close();
