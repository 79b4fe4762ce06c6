<?php
// The meta protocol over a plain PHP stream; no extension needed.
[, $host, $port] = $argv;
$stream = stream_socket_client("tcp://$host:$port", $code, $message, 5);
stream_set_timeout($stream, 5);

/** Sends one mg command; returns the flags of the answer by their letter, and the value. */
function mg($stream, string $key, string $flags): array
{
    fwrite($stream, "mg $key v $flags\r\n");
    $header = explode(' ', rtrim(fgets($stream), "\r\n"));
    if ($header[0] != 'VA') {
        exit('unexpected answer: ' . implode(' ', $header) . "\n");
    }
    $value = stream_get_contents($stream, $header[1] + 2);
    $returned = [];
    foreach (array_slice($header, 2) as $flag) {
        $returned[$flag[0]] = substr($flag, 1);
    }
    return [rtrim($value, "\r\n"), $returned];
}

for ($i = 0; $i < 5; $i++) {
    echo 'get ', mg($stream, 'id', '')[0], "\n";
}
[$value, $flags] = mg($stream, 'id', 'c k t f s O42');
if ([$flags['k'], $flags['t'], $flags['f'], $flags['s'], $flags['O']] != ['id', '-1', '0', strlen($value), '42']) {
    exit('unexpected flags: ' . json_encode($flags) . "\n");
}
echo "gets $value $flags[c]\n";
fwrite($stream, "mn\r\n");
if (fgets($stream) != "MN\r\n") {
    exit("no MN\n");
}
fwrite($stream, "version\r\n");
echo 'version ', substr(fgets($stream), strlen('VERSION '));
