<?php
// Ids from katsubushi for models: Ids::next() for one, Ids::take($n) for a bulk insert.

/** No daemon has an id now: try again later. */
final class NoId extends RuntimeException {}

final class Ids
{
    private static array $open = [];

    /** n ids, with one request for each 1,000. A name that the daemons do not declare gets plain ids. */
    public static function take(int $n, string $name = 'id'): array
    {
        if ($n > 1000) {
            return array_merge(self::take(1000, $name), self::take($n - 1000, $name));
        }
        $why = [];
        foreach (explode(',', getenv('IDS') ?: '127.0.0.1:11212') as $daemon) { // the second one if the first has no ids
            try {
                $redis = self::$open[$daemon] ??= self::connect($daemon);
                $values = $redis->mget(array_fill(0, $n, $name));
                if ($values && !in_array(false, $values, true)) {
                    return array_map('intval', $values); // 63 bits: PHP's int on every 64-bit system
                }
                $why[] = "$daemon: " . $redis->getLastError();
            } catch (RedisException $e) {
                $why[] = "$daemon: " . $e->getMessage();
            }
            unset(self::$open[$daemon]);
        }
        throw new NoId('no id: ' . implode('; ', $why));
    }

    public static function next(string $name = 'id'): int
    {
        return self::take(1, $name)[0];
    }

    private static function connect(string $daemon): Redis
    {
        [$host, $port] = explode(':', $daemon);
        $redis = new Redis();
        $redis->pconnect($host, (int) $port, 1.0, null, 0, 2.0); // a pool for all requests of a worker; seconds
        return $redis;
    }
}
