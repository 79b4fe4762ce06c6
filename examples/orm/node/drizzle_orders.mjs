// Drizzle: $defaultFn cannot wait for an answer, so what inserts asks for the id.
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, pgTable, text } from "drizzle-orm/pg-core";
import pg from "pg";
import { nextIds } from "./ids.mjs";

const db = drizzle(new pg.Pool({ max: 5 })); // PGHOST, PGUSER, PGDATABASE
const orders = pgTable("orders", {
  id: bigint("id", { mode: "bigint" }).primaryKey(), // not mode "number", which has 53 bits
  item: text("item").notNull(),
});

/** values with their ids, which one request gets. */
async function withIds(values) {
  const ids = await nextIds(values.length, "orders");
  return values.map((value, i) => ({ id: ids[i], ...value }));
}

export async function create(item) {
  const [order] = await db.insert(orders).values(await withIds([{ item }])).returning();
  return order.id;
}

export async function createMany(items) {
  for (let i = 0; i < items.length; i += 1000) {
    await db.insert(orders).values(await withIds(items.slice(i, i + 1000).map((item) => ({ item }))));
  }
}
