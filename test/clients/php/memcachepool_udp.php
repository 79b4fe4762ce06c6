<?php
// pecl-memcache's MemcachePool asks for several keys over UDP, and for everything else over TCP.
[, $host, $port] = $argv;
ini_set('memcache.protocol', 'ascii');
$client = new MemcachePool();
$client->addServer($host, (int)$port, (int)$port);
for ($i = 0; $i < 5; $i++) {
    echo 'get ', $client->get('id'), "\n";
}
for ($i = 0; $i < 5; $i++) {
    echo 'multi ', implode(' ', $client->get(['identifier-1', 'identifier-2', 'identifier-3'])), "\n";
}
$stats = $client->getStats();
if (isset($stats['udp_datagrams']) && $stats['udp_datagrams'] < 5) {
    fwrite(STDERR, "it did not use UDP\n");
    exit(1);
}
echo 'get ', $client->get('id'), "\n";
