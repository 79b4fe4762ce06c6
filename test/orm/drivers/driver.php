<?php
// Runs a recipe: driver.php FILE. Each line of the input is "insert N" or "bulk N".
error_reporting(E_ALL & ~E_DEPRECATED); // Debian's libraries are older than its PHP
require $argv[1];
while ($line = fgets(STDIN)) {
    [$what, $n] = explode(' ', trim($line));
    $last = '';
    try {
        if ($what === 'bulk') {
            create_many(array_fill(0, (int) $n, 'tea'));
        } else {
            for ($i = 0; $i < $n; $i++) {
                $last = create('tea');
            }
        }
        echo "done $last\n";
    } catch (Throwable $e) {
        echo 'error ', get_class($e), ' ', preg_replace('/\s+/', ' ', $e->getMessage()), "\n";
    }
}
