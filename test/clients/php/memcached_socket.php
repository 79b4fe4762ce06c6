<?php
// usage: memcached_socket.php path
$client = new Memcached();
$client->addServer($argv[1], 0);
for ($i = 0; $i < 5; $i++) {
    echo 'get ', $client->get('id'), "\n";
}
echo 'multi ', implode(' ', $client->getMulti(['a', 'b', 'c'])), "\n";
echo 'version ', current($client->getVersion()), "\n";
