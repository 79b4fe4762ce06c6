<?php
[, $host, $port, $protocol] = $argv;
$client = new Memcached();
$client->setOption(Memcached::OPT_BINARY_PROTOCOL, $protocol == 'binary');
if (isset($argv[5])) {
    $client->setSaslAuthData($argv[4], $argv[5]);
}
$client->addServer($host, (int)$port);
for ($i = 0; $i < 5; $i++) {
    echo 'get ', $client->get('id'), "\n";
}
echo 'multi ', implode(' ', $client->getMulti(['a', 'b', 'c'])), "\n";
$answer = $client->get('id', null, Memcached::GET_EXTENDED);
echo "gets $answer[value] $answer[cas]\n";
echo 'version ', $client->getVersion()["$host:$port"], "\n";
foreach ($client->getStats()["$host:$port"] as $name => $value) {
    echo "stat $name $value\n";
}
echo 'group settings ', count($client->getStats('settings')["$host:$port"]), "\n";
echo 'get ', $client->get('id'), "\n";
$client->quit();
