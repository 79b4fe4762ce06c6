// Sequelize: a hook asks for an id before the row is validated.
import { DataTypes, Model, Sequelize } from "sequelize";
import { nextId, nextIds } from "./ids.mjs";

const { DB_DRIVER, DB_HOST, DB_PORT, DB_USER, DB_NAME } = process.env; // DB_DRIVER: postgres, mysql
const sequelize = new Sequelize(DB_NAME, DB_USER, "", { dialect: DB_DRIVER, host: DB_HOST, port: DB_PORT, logging: false, pool: { max: 5 } });

class Order extends Model {}
Order.init(
  { id: { type: DataTypes.BIGINT, primaryKey: true }, item: { type: DataTypes.TEXT, allowNull: false } },
  { sequelize, tableName: "orders", timestamps: false },
);
// As text, which is also how Sequelize reads a BIGINT. A defaultValue cannot wait for an answer.
Order.beforeValidate(async (order) => { order.id ??= String(await nextId("orders")); });

export async function create(item) {
  return (await Order.create({ item })).id;
}

/** bulkCreate calls no such hook, so the rows bring their ids. */
export async function createMany(items) {
  const ids = await nextIds(items.length, "orders");
  const rows = items.map((item, i) => ({ id: String(ids[i]), item }));
  for (let i = 0; i < rows.length; i += 1000) await Order.bulkCreate(rows.slice(i, i + 1000));
}
