// TypeORM: a subscriber asks for an id before the INSERT.
import { DataSource, EntitySchema, EventSubscriber } from "typeorm";
import { nextId, nextIds } from "./ids.mjs";

class Order {}
const OrderSchema = new EntitySchema({
  target: Order,
  tableName: "orders",
  columns: { id: { type: "bigint", primary: true }, item: { type: "text" } }, // not generated: true
});

class OrderIds {
  listenTo() { return Order; }

  // As text, which is also how TypeORM reads a bigint.
  async beforeInsert({ entity }) { entity.id ??= String(await nextId("orders")); }
}
EventSubscriber()(OrderIds); // in TypeScript @EventSubscriber() above the class; TypeORM ignores a class without it

const { DB_DRIVER, DB_HOST, DB_PORT, DB_USER, DB_NAME } = process.env;
const db = await new DataSource({
  type: DB_DRIVER, host: DB_HOST, port: Number(DB_PORT), username: DB_USER, database: DB_NAME, poolSize: 5,
  supportBigNumbers: true, bigNumberStrings: true, // of MySQL's driver: numbers of 64 bits as text
  entities: [OrderSchema], subscribers: [OrderIds],
}).initialize();
const orders = db.getRepository(Order);

export async function create(item) {
  return (await orders.save(orders.create({ item }))).id;
}

/** insert() calls the subscriber for each row, so the rows bring their ids. */
export async function createMany(items) {
  const ids = await nextIds(items.length, "orders");
  const rows = items.map((item, i) => ({ id: String(ids[i]), item }));
  for (let i = 0; i < rows.length; i += 1000) await orders.insert(rows.slice(i, i + 1000));
}
