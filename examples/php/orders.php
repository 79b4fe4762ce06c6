<?php
// Five orders, each with an id from katsubushi.

/** The daemon cannot be reached, or has no id now: try again later. */
class NoId extends RuntimeException {}

/** One for the process. Its name keeps the connection open between the requests that a worker of PHP-FPM serves. */
function ids(): Memcached
{
    $ids = new Memcached('ids');
    if (!$ids->getServerList()) {
        [$host, $port] = explode(':', getenv('IDS') ?: '127.0.0.1:11212');
        $ids->setOptions([
            Memcached::OPT_CONNECT_TIMEOUT => 1000,    // ms
            Memcached::OPT_POLL_TIMEOUT => 2000,       // ms
            Memcached::OPT_RECV_TIMEOUT => 2_000_000,  // µs
            Memcached::OPT_SEND_TIMEOUT => 2_000_000,  // µs
            Memcached::OPT_TCP_NODELAY => true,
            Memcached::OPT_RETRY_TIMEOUT => 1,         // s
        ]);
        $ids->addServer($host, (int) $port);
    }
    return $ids;
}

/** A number of 63 bits: PHP's int on every 64-bit system. */
function nextId(): int
{
    $ids = ids();
    foreach ([1, 2] as $try) { // a daemon that was restarted has closed the connection
        $value = $ids->get('id');
        if ($value !== false) {
            return (int) $value;
        }
    }
    throw new NoId('no id: ' . $ids->getLastErrorMessage());
}

try {
    for ($i = 0; $i < 5; $i++) {
        echo nextId(), "\n";
    }
} catch (NoId $e) {
    fwrite(STDERR, $e->getMessage() . "\n");
    exit(1);
}
