<?php
[, $host, $port] = $argv;
ini_set('memcache.protocol', $argv[3] == 'binary' ? 'binary' : 'ascii');
$client = new Memcache();
$client->connect($host, (int)$port);
for ($i = 0; $i < 5; $i++) {
    echo 'get ', $client->get('id'), "\n";
}
echo 'multi ', implode(' ', $client->get(['a', 'b', 'c'])), "\n";
echo 'version ', $client->getVersion(), "\n";
if ($argv[3] != 'binary') { // pecl-memcache has no binary statistics
    foreach ($client->getStats() as $name => $value) {
        echo "stat $name $value\n";
    }
}
echo 'get ', $client->get('id'), "\n";
$client->close();
