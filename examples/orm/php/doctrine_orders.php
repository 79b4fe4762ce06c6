<?php
// Doctrine: an id generator asks when an entity is persisted.
require_once 'Doctrine/ORM/autoload.php'; // Debian's; with Composer vendor/autoload.php
require_once 'Symfony/Component/Cache/autoload.php';
require_once __DIR__ . '/ids.php';

use Doctrine\ORM\EntityManager;
use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\ORMSetup;

final class OrderId extends AbstractIdGenerator
{
    /** What a bulk insert has fetched for the entities that it will persist. */
    public static array $stock = [];

    public function generateId(EntityManagerInterface $em, $entity): int
    {
        return array_shift(self::$stock) ?? Ids::next('orders');
    }
}

#[ORM\Entity, ORM\Table(name: 'orders')]
class Order
{
    #[ORM\Id, ORM\Column(type: 'bigint'), ORM\GeneratedValue(strategy: 'CUSTOM'), ORM\CustomIdGenerator(class: OrderId::class)]
    public ?int $id = null; // DBAL reads a bigint as text, which PHP makes an int

    public function __construct(#[ORM\Column(type: 'text')] public string $item) {}
}

$em = EntityManager::create(
    ['driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'user' => getenv('PGUSER'), 'dbname' => getenv('PGDATABASE')],
    ORMSetup::createAttributeMetadataConfiguration([__DIR__], true),
);

function create(string $item): int
{
    global $em;
    $em->persist($order = new Order($item));
    $em->flush();
    $em->clear();
    return $order->id;
}

function create_many(array $items): void
{
    global $em;
    foreach (array_chunk($items, 1000) as $some) {
        OrderId::$stock = Ids::take(count($some), 'orders');
        array_map(fn ($item) => $em->persist(new Order($item)), $some);
        $em->flush();
        $em->clear();
    }
}
