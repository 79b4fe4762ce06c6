// Prisma 7: an extension of the client asks for ids before rows are created. The adapter needs no engine.
import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "@prisma/client";
import { nextId, nextIds } from "./ids.mjs";

const prisma = new PrismaClient({ adapter: new PrismaPg({ max: 5 }) }).$extends({ // PGHOST, PGUSER, PGDATABASE
  name: "orders have ids from katsubushi",
  query: {
    order: {
      async create({ args, query }) {
        return query({ ...args, data: { id: await nextId("orders"), ...args.data } });
      },
      async createMany({ args, query }) { // one request gets the ids of all rows
        const ids = await nextIds(args.data.length, "orders");
        return query({ ...args, data: args.data.map((row, i) => ({ id: ids[i], ...row })) });
      },
    },
  },
});

export async function create(item) {
  return (await prisma.order.create({ data: { item } })).id; // a BigInt
}

export async function createMany(items) {
  for (let i = 0; i < items.length; i += 1000) {
    await prisma.order.createMany({ data: items.slice(i, i + 1000).map((item) => ({ item })) });
  }
}
