<?php
// Eloquent: the creating event asks for an id.
require_once 'Illuminate/Database/autoload.php'; // Debian's; Laravel needs none of the lines down to bootEloquent
require_once 'Illuminate/Events/autoload.php';
require_once __DIR__ . '/ids.php';

use Illuminate\Database\Capsule\Manager;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Events\Dispatcher;

$capsule = new Manager();
$capsule->addConnection([
    'driver' => getenv('DB_DRIVER'), // pgsql, mysql
    'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT'), 'username' => getenv('DB_USER'), 'database' => getenv('DB_NAME'),
]);
$capsule->setEventDispatcher(new Dispatcher());
$capsule->setAsGlobal();
$capsule->bootEloquent();

class Order extends Model
{
    public $incrementing = false;
    public $timestamps = false;
    protected $fillable = ['item'];

    protected static function booted(): void
    {
        static::creating(function (Order $order): void { // must return nothing: a value ends the event
            $order->id ??= Ids::next('orders');
        });
    }
}

function create(string $item): int
{
    return Order::create(['item' => $item])->id;
}

/** insert() fires no events, so the rows bring their ids. */
function create_many(array $items): void
{
    foreach (array_chunk($items, 1000) as $some) {
        Order::insert(array_map(fn ($id, $item) => compact('id', 'item'), Ids::take(count($some), 'orders'), $some));
    }
}
